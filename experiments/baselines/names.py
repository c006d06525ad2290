"""Name the groups of methods in tables and tests, and the policy that each decides by.

A model decides by two policies: F1 (a threshold tuned for F1, or the F1 policy at the tracked prior) and least cost
(probability 1/2, as costs are equal). One of them is the model's own, which its plain name stands for; the other has a
suffix. So a table of one policy compares models, and a model's two names compare policies.
"""

ORACLE, STATIC = "OBIL default, oracle prior", "OBIL default, no adaptation"
COMPARED = {"bank": "OBIL default, bank", "safe": "OBIL default, safe"}
TUNED_BOOSTING = "boosting, tuned threshold"
HINDSIGHT = {"default": "OBIL default, best threshold in hindsight", "vanilla": "vanilla, best threshold in hindsight"}

BY_F1, BY_COST = "f1", "cost"
POLICIES = {BY_F1: "F1 policy", BY_COST: "least cost"}
F1_SUFFIX, COST_SUFFIX = ", F1 threshold", ", equal costs"
# those whose plain name decides for F1; all others decide at least cost, as their authors and the paper print it
_PLAINLY_F1 = ("threshold moving", "logit adjustment", TUNED_BOOSTING, *HINDSIGHT.values())
_PLAINLY_F1_FAMILIES = ("OBIL default", "OBIL boosting")
_NAMED = {"vanilla": "threshold moving", TUNED_BOOSTING: "boosting, equal costs"}  # whose other form has its own name
_OTHERS = _NAMED | {other: plain for plain, other in _NAMED.items()}


def policy_of(method: str) -> str:
    """Return the policy that a method decides by.

    >>> policy_of("SMOTE"), policy_of("SMOTE, F1 threshold"), policy_of("OBIL default, safe, equal costs")
    ('cost', 'f1', 'cost')
    """
    if method.endswith(COST_SUFFIX):
        return BY_COST
    plainly = method in _PLAINLY_F1 or method.startswith(_PLAINLY_F1_FAMILIES)
    return BY_F1 if plainly or method.endswith(F1_SUFFIX) else BY_COST


def other_form(method: str) -> str:
    """Return the name of the same model under the other policy, given its plain name.

    >>> other_form("OBIL paper, bank"), other_form("OBIL default, bank"), other_form("vanilla")
    ('OBIL paper, bank, F1 threshold', 'OBIL default, bank, equal costs', 'threshold moving')
    """
    if method in _OTHERS:
        return _OTHERS[method]
    return method + (COST_SUFFIX if policy_of(method) == BY_F1 else F1_SUFFIX)


def is_plain(method: str) -> bool:
    """Return whether a name is that of a model under its own policy: measures of its scores are told once, by this."""
    return not method.endswith((F1_SUFFIX, COST_SUFFIX))


def _both(*methods: str) -> tuple[str, ...]:
    return tuple(name for method in methods for name in (method, other_form(method)))


# what knows something that nobody knows: the true prior, or the labels
CEILINGS = (
    *_both("logit adjustment, known prior", "OBIL paper, oracle prior", "OBIL boosting, oracle prior", ORACLE),
    *HINDSIGHT.values(),
)
# what sees a whole stream before it decides the first row
BATCH = _both("BBSE", "RLLS", "MLLS + BCTS", "OBIL default, BBSE on the batch", "OBIL default, MLLS on the batch")
# the tests planned beforehand: the paper's baselines, and what a practitioner would pick, each under the F1 policy
PLANNED = (
    "threshold moving",
    *(other_form(m) for m in ("SMOTE", "ADASYN", "cost-sensitive", "RUSBoost", "BBSE")),
    "logit adjustment",
    TUNED_BOOSTING,
)
