"""Losses: which of them are least at the posterior, and which have the form the paper asks for.

What is true of a loss C differentiable in o: 2P - 1 is its one minimiser at every P exactly when dC/do = -g(o)(t - o)
with g >= 0 and g = 0 on no interval. Write m = 2P - 1 and S(m, o) for the expected loss. If m is the one minimiser for
every m, the slope of S in o is 0 at o = m, which makes one g serve both targets. For a < b the difference
S(m, b) - S(m, a) is linear in m, positive at a and negative at b, so it is positive below a: S rises away from m on
that side, and in the same way on the other. Its slope g(o)(o - m) therefore never has the wrong sign, and g is 0 on
no interval, where S would be flat. Conversely such a g makes S fall before m and rise after it.
"""

from collections.abc import Callable

from experiments.theory_rows.row import CORRECTED, FAILS, HOLDS, NOT_AS_STATED, Figures, Measured, Row, Settings, judged

TOLERANCE = 1e-6  # of the form
RIGHT = 1e-3  # how near 2P - 1 a minimiser found by search has to be


def _measured_by(name: str) -> Callable[[Settings], Measured]:
    def measure(settings: Settings) -> Measured:
        from experiments.theory_rows import loss_forms  # torch is an extra: the page needs none

        found: Measured = getattr(loss_forms, name)(settings)
        return found

    return measure


def _proper_verdict(figures: Figures) -> str:
    if figures["largest_distance"] > 1e-5 or figures["largest_minimiser_error"] > RIGHT:
        return judged(FAILS, "a loss that is least at E[t] is no divergence")
    if figures["without_positive_g"] > 0:
        return judged(
            CORRECTED, "the divergence form holds; g need not be positive everywhere, only zero on no interval"
        )
    return judged(HOLDS, "every proper loss tried is a divergence with g > 0")


def _characterisation_verdict(figures: Figures) -> str:
    if figures["form_and_wrong"] > 0:
        return judged(FAILS, "a loss of the form is least elsewhere")
    if figures["no_form_and_right"] > 0:
        return judged(
            CORRECTED,
            "the form suffices; it is not necessary as printed. For a loss differentiable in o, 2P - 1 is the one "
            "minimiser at every P exactly when g >= 0 and g is 0 on no interval; g need not be continuous",
        )
    return judged(HOLDS, "form and right minimiser go together in every loss tried")


def _squared_verdict(figures: Figures) -> str:
    exact = figures["accepted"] == 1.0 and figures["largest_g_error"] < TOLERANCE
    return judged(HOLDS, "g = 1") if exact else judged(FAILS, "the check rejects it")


def _logistic_verdict(figures: Figures) -> str:
    if figures["printed.accepted"] == 1.0:
        return judged(HOLDS, "the check accepts it as printed")
    if figures["corrected.accepted"] == 1.0 and figures["corrected.largest_g_error"] < 1e-4:
        return judged(CORRECTED, "with 2 artanh(o) in place of artanh(o); as printed its minimiser is tanh(logit P)")
    return judged(FAILS, "neither form passes")


def _cross_entropy_verdict(figures: Figures) -> str:
    if figures["accepted"] == 1.0 and figures["difference"] < TOLERANCE:
        return judged(
            NOT_AS_STATED, "on log odds 2 artanh(o) it has the form exactly: it is the corrected logistic loss"
        )
    return judged(HOLDS, "it does not have the form")


_CHECKS = "networks/test_loss_report.py"
ROWS = (
    Row(
        name="proper scoring (Savage)",
        covers=("definition: Bregman divergence", "definition: proper scoring rule", "thm:bregman_proper"),
        claim="A loss is proper exactly when it is a Bregman divergence; equivalently dC/do = -g(o)(t - o) with g > 0",
        measure=_measured_by("measure_proper"),
        measured=lambda f, _: (
            f"{f['losses']:.0f} losses are least at 2P - 1 (largest error {f['largest_minimiser_error']:.1g}); each "
            f"is a divergence to {f['largest_distance']:.0e}; {f['without_positive_g']:.0f} of them has a g that is "
            "not positive everywhere"
        ),
        verdict=_proper_verdict,
        shown_by=(f"{_CHECKS}::test_every_strictly_convex_generator_is_accepted",),
    ),
    Row(
        name="characterisation of losses",
        covers=("def:bregman_calibrated", "thm:bregman_char"),
        claim="The minimiser is 2P - 1 if and only if dC/do = -g(o)(t - o), g continuous and positive",
        measure=_measured_by("measure_characterisation"),
        measured=lambda f, _: (
            f"{f['losses']:.0f} losses: form and right minimiser {f['form_and_right']:.0f}, form and wrong "
            f"{f['form_and_wrong']:.0f}, neither {f['no_form_and_wrong']:.0f} (each off by "
            f"{f['least_error_of_wrong']:.2g} or more); right without the form {f['no_form_and_right']:.0f}: g = "
            "3o^2, a g that jumps, a loss that jumps"
        ),
        verdict=_characterisation_verdict,
        shown_by=(
            f"{_CHECKS}::test_accepts_the_corrected_losses",
            f"{_CHECKS}::test_rejects_hinge_and_names_its_minimiser",
        ),
    ),
    Row(
        name="squared error",
        covers=("prop:squared",),
        claim="(t - o)^2/2 has the form with g = 1",
        measure=_measured_by("measure_squared"),
        measured=lambda f, _: (
            f"form violated by {f['violation']:.0e}, g off 1 by {f['largest_g_error']:.0e}, minimiser at P = .9: "
            f"{f['minimiser_at_0.9']:.3f}"
        ),
        verdict=_squared_verdict,
        shown_by=("networks/test_losses.py::test_the_derivative_is_the_curvature_times_the_error",),
    ),
    Row(
        name="logistic loss",
        covers=("prop:logistic",),
        claim="log(1 + exp(-t artanh o)) has the form with g = 1/(1 - o^2)",
        measure=_measured_by("measure_logistic"),
        measured=lambda f, _: (
            f"printed: form violated by {f['printed.violation']:.2f}, minimiser at P = .9 "
            f"{f['printed.minimiser_at_0.9']:.3f} and not .8; with 2 artanh(o): {f['corrected.violation']:.0e} and "
            f"{f['corrected.minimiser_at_0.9']:.3f}, g as claimed"
        ),
        verdict=_logistic_verdict,
        shown_by=(f"{_CHECKS}::test_rejects_the_printed_logistic_loss_and_names_its_minimiser",),
    ),
    Row(
        name="cross-entropy",
        covers=("remark: cross-entropy",),
        claim="Sigmoid cross-entropy calibrates well but does not exactly have the Bregman form",
        measure=_measured_by("measure_cross_entropy"),
        measured=lambda f, _: (
            f"form violated by {f['violation']:.0e}; it differs from the corrected logistic loss by "
            f"{f['difference']:.0e}"
        ),
        verdict=_cross_entropy_verdict,
        shown_by=("networks/test_losses.py::test_cross_entropy_is_the_logistic_loss_and_torchs_own",),
    ),
)
