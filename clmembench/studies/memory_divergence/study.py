"""The study `model`: the memory divergence model, measured and validated."""

from clmembench.studies import NO_FIGURE, JsonOutput, Study

STUDY = Study(
    name="memory_divergence",
    title="Memory divergence model",
    package=__package__,
    source="Wang et al. 2019",
    commands={"model": "command:model"},
    tables={"memory_divergence": "views.mdm_tables:sections"},
    figures={"memory_divergence": NO_FIGURE},
    json={
        "model-predict": JsonOutput(("model predict",), "model.predict:Prediction", is_list=True),
        "model-validate": JsonOutput(("model validate",), "views.mdm_outputs:ValidationObject"),
    },
)
