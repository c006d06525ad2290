"""What the paper's tables, figures and text say: claims to check, never targets. Means as printed."""

MATCHED_F1 = {  # tab:matched
    "vanilla": {"yeast4": 0.21, "abalone19": 0.08, "sick_euthyroid": 0.52, "mammography": 0.45},
    "SMOTE": {"yeast4": 0.48, "abalone19": 0.19, "sick_euthyroid": 0.71, "mammography": 0.68},
    "ADASYN": {"yeast4": 0.46, "abalone19": 0.18, "sick_euthyroid": 0.69, "mammography": 0.66},
    "cost-sensitive": {"yeast4": 0.44, "abalone19": 0.16, "sick_euthyroid": 0.68, "mammography": 0.64},
    "RUSBoost": {"yeast4": 0.51, "abalone19": 0.21, "sick_euthyroid": 0.73, "mammography": 0.71},
    "threshold moving": {"yeast4": 0.47, "abalone19": 0.17, "sick_euthyroid": 0.70, "mammography": 0.67},
    "logit adjustment": {"yeast4": 0.49, "abalone19": 0.20, "sick_euthyroid": 0.72, "mammography": 0.69},
    "OBIL paper, Algorithm 2": {"yeast4": 0.52, "abalone19": 0.22, "sick_euthyroid": 0.74, "mammography": 0.72},
}
MATCHED_GMEAN = {  # tab:matched_full
    "SMOTE": {"yeast4": 0.71, "mammography": 0.80},
    "RUSBoost": {"yeast4": 0.74, "mammography": 0.82},
    "BBSE": {"yeast4": 0.73, "mammography": 0.81},
    "logit adjustment": {"yeast4": 0.72, "mammography": 0.81},
    "OBIL paper, Algorithm 2": {"yeast4": 0.75, "mammography": 0.83},
}
MATCHED_AUPRC = {  # tab:matched_full
    "SMOTE": {"yeast4": 0.44, "mammography": 0.64},
    "RUSBoost": {"yeast4": 0.47, "mammography": 0.67},
    "BBSE": {"yeast4": 0.46, "mammography": 0.66},
    "logit adjustment": {"yeast4": 0.45, "mammography": 0.65},
    "OBIL paper, Algorithm 2": {"yeast4": 0.48, "mammography": 0.68},
}
YEAST4_SD = {  # tab:matched and tab:matched_full: standard deviations over ten runs of F1 and G-mean, as printed
    "SMOTE": {"f1": 0.05, "gmean": 0.04},
    "RUSBoost": {"f1": 0.04, "gmean": 0.03},
    "logit adjustment": {"f1": 0.04, "gmean": 0.03},
    "OBIL paper, Algorithm 2": {"f1": 0.04, "gmean": 0.03},
}
RUNS = 10  # "10 random train/test splits with stratified sampling"; the fraction that is tested is not given
RARER_F1 = {  # tab:shift, at 4 Qp
    "vanilla": {"yeast4": 0.11, "mammography": 0.28},
    "SMOTE": {"yeast4": 0.31, "mammography": 0.49},
    "ADASYN": {"yeast4": 0.29, "mammography": 0.47},
    "cost-sensitive": {"yeast4": 0.28, "mammography": 0.45},
    "RUSBoost": {"yeast4": 0.33, "mammography": 0.52},
    "threshold moving": {"yeast4": 0.30, "mammography": 0.48},
    "BBSE": {"yeast4": 0.42, "mammography": 0.61},
    "logit adjustment": {"yeast4": 0.40, "mammography": 0.59},
    "OBIL paper, Algorithm 2": {"yeast4": 0.48, "mammography": 0.68},
}
COMMONER_F1 = {  # tab:shift, at Qp / 4
    "vanilla": {"yeast4": 0.35, "mammography": 0.58},
    "SMOTE": {"yeast4": 0.52, "mammography": 0.71},
    "ADASYN": {"yeast4": 0.50, "mammography": 0.69},
    "cost-sensitive": {"yeast4": 0.48, "mammography": 0.67},
    "RUSBoost": {"yeast4": 0.54, "mammography": 0.73},
    "threshold moving": {"yeast4": 0.51, "mammography": 0.70},
    "BBSE": {"yeast4": 0.56, "mammography": 0.76},
    "logit adjustment": {"yeast4": 0.55, "mammography": 0.75},
    "OBIL paper, Algorithm 2": {"yeast4": 0.63, "mammography": 0.82},
}
CROSS_SITE = {  # tab:thyroid: F1, G-mean, AUPRC on thyroid at 4 Qp
    "vanilla": {"f1": 0.41, "gmean": 0.58, "auprc": 0.39},
    "SMOTE": {"f1": 0.59, "gmean": 0.72, "auprc": 0.55},
    "RUSBoost": {"f1": 0.62, "gmean": 0.74, "auprc": 0.58},
    "BBSE": {"f1": 0.67, "gmean": 0.78, "auprc": 0.63},
    "logit adjustment": {"f1": 0.65, "gmean": 0.76, "auprc": 0.61},
    "OBIL paper, Algorithm 2": {"f1": 0.74, "gmean": 0.83, "auprc": 0.71},
}
DATA_SETS = {  # tab:datasets: rows, features, negatives a positive
    "yeast4": (1_484, 8, 28.4),
    "abalone19": (4_174, 8, 129.4),
    "sick_euthyroid": (3_163, 25, 9.8),
    "mammography": (11_183, 6, 42.0),
    "creditcard": (284_807, 30, 578.9),
    "thyroid_ann": (7_200, 21, 40.2),
}


SHIFTED, MATCHED = 0.25, 1.0  # of the training imbalance ratio

FactorClaims = dict[float, dict[str, tuple[float, float]]]  # factor -> variant -> F1 and its standard deviation
ABLATION_F1: dict[str, FactorClaims] = {  # F1 on yeast4
    "members": {  # tab:ablation_ensemble
        SHIFTED: {
            "1": (0.57, 0.05), "3": (0.61, 0.04), "5": (0.63, 0.04), "7": (0.64, 0.03), "10": (0.64, 0.03),
        },
    },
    "losses": {  # tab:ablation_loss
        MATCHED: {
            "cross-entropy, none": (0.50, 0.04),
            "cross-entropy, temperature": (0.51, 0.04),
            "squared error, none": (0.52, 0.04),
        },
        SHIFTED: {
            "cross-entropy, none": (0.59, 0.05),
            "cross-entropy, temperature": (0.61, 0.04),
            "squared error, none": (0.63, 0.04),
        },
    },
    "rates": {  # tab:ablation_alpha
        SHIFTED: {
            "0.001": (0.55, 0.05), "0.01": (0.61, 0.04), "0.05": (0.63, 0.04), "0.1": (0.62, 0.05), "0.2": (0.58, 0.06),
        },
    },
}  # fmt: skip
# tab:efficiency, on mammography: seconds to train, and milliseconds, of how many rows it does not say. The text has
# OBIL's time to adapt as that of one row.
COST = {
    "Vanilla": {"train": 12.0, "infer": 0.3},
    "SMOTE": {"train": 45.0, "infer": 0.3},
    "RUSBoost": {"train": 89.0, "infer": 1.5},
    "BBSE": {"train": 12.0, "infer": 0.3, "adapt": 50.0},
    "OBIL": {"train": 67.0, "infer": 1.5, "adapt": 0.01},
}
ADAPTATION_LAG = "30-50"  # fig:adaptation, in its text: rows, without a definition
CALIBRATION_ERROR = {  # fig:calibration, in its text: ECE on mammography, by loss, class ratio and calibration
    "squared_error/original/none": 0.007,
    "cross_entropy/original/none": 0.023,
    "cross_entropy/original/temperature": 0.010,
}
RATIO_ERROR = {0.05: 0.15, 0.02: 0.05}  # fig:error_prop and sec:implementation: ECE -> relative error of the ratio
REGRET = {  # fig:regret_empirical
    "OBIL": "follows sqrt(T log T); per step towards 0",
    "BBSE": "sublinear, larger constant",
    "SMOTE": "linear",
    "Vanilla": "linear",
    "LA, known prior": "best achievable; OBIL approaches it",
}

# fig:robustness (a), mammography alone; .82 is its F1 at Qp/4 in tab:shift, so the noise comes on top of that shift
NOISE_F1 = {0.0: 0.82, 0.3: 0.61}
NOISE_FAILURE = (0.75, 0.35)  # fig:robustness (a), mammography alone: beyond this noise F1 is below this
NOISE_LOSS = (
    0.2,
    0.05,
)  # fig:robustness (a), "across datasets": up to this noise, less than this fraction lost
LEAD_OVER_BBSE = (0.10, 0.10)  # fig:robustness (b): below this ECE, more than this "F1 gap" over BBSE
CROSSINGS = {"BBSE": 0.20, "SMOTE": 0.25}  # fig:robustness (b): ECE at which OBIL falls below the rival
DRIFT_FINE = 0.01  # subsec:failure: "well-suited" for a drift up to this, a row
DRIFT_TOO_FAST = 0.1  # subsec:failure: beyond it a moving average fails at any rate; a window of 20 is preferable

# its labels in its order, and a name for what it gives none
THEORY_LABELS = (
    "observation: prior invariance",
    "observation: cost invariance",
    "definition: Bregman divergence",
    "definition: proper scoring rule",
    "thm:bregman_proper",
    "def:associated",
    "thm:transfer",
    "def:bregman_calibrated",
    "thm:bregman_char",
    "cor:architecture",
    "remark: universal approximation",
    "prop:squared",
    "prop:logistic",
    "remark: cross-entropy",
    "thm:error_prop",
    "cor:sensitivity",
    "assump:preserving",
    "prop:undersampling",
    "prop:smote",
    "definition: confident pseudo-label",
    "rem:selection_bias",
    "rem:feedback",
    "prop:stability",
    "thm:consistency",
    "thm:tracking",
    "prop:complexity",
    "definition: oracle policy",
    "definition: regret",
    "thm:regret",
    "cor:stationary",
    "thm:lower",
    "tab:loss",
    "definition: calibration error",
    "subsec:multiclass, regret",
    "subsec:multiclass, one against the rest",
)
