"""Name the groups of methods in tables and tests."""

ORACLE, STATIC = "OBIL default, oracle prior", "OBIL default, no adaptation"
COMPARED = {"bank": "OBIL default, bank", "safe": "OBIL default, safe"}
TUNED_BOOSTING = "boosting, tuned threshold"
HINDSIGHT = {"default": "OBIL default, best threshold in hindsight", "vanilla": "vanilla, best threshold in hindsight"}

# what knows something that nobody knows: the true prior, or the labels
CEILINGS = (
    "logit adjustment, known prior",
    "OBIL paper, oracle prior",
    "OBIL boosting, oracle prior",
    ORACLE,
    *HINDSIGHT.values(),
)
# what sees a whole stream before it decides the first row
BATCH = (
    "BBSE",
    "BBSE, F1 threshold",
    "RLLS",
    "RLLS, F1 threshold",
    "MLLS + BCTS",
    "MLLS + BCTS, F1 threshold",
    "OBIL default, BBSE on the batch",
    "OBIL default, MLLS on the batch",
)
# the tests planned beforehand: the paper's baselines, and what a practitioner would pick
PLANNED = (
    "vanilla",
    "SMOTE",
    "ADASYN",
    "cost-sensitive",
    "RUSBoost",
    "threshold moving",
    "BBSE",
    "logit adjustment",
    TUNED_BOOSTING,
)
