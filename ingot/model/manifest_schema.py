"""List every key of a manifest, with its form and its meaning.

A section whose every key has a default or an empty value loses only its wrong parts, so
that the rules can check the rest of a manifest together with the mistakes in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingot.model.limits import LimitsSection
from ingot.model.name_patterns import (
    BLOCK,
    COMPUTE_ELEMENTS,
    KEBAB,
    LICENCE,
    NAME,
    PARAMETER,
    PATH,
    SOURCE_ELEMENTS,
    STORED_ELEMENTS,
)
from ingot.model.rope_scaling import ROPE_SCALING, ScalingSection
from ingot.model.schema_types import (
    Boolean,
    Choice,
    Integer,
    ListOf,
    MapOf,
    Number,
    Section,
    Text,
    key,
    optional,
)
from ingot.model.source_sections import (
    TOKENIZER_SOURCE,
    WEIGHT_SOURCE,
    SourceSection,
    TokenizerSection,
)
from ingot.model.tolerance import CHECK_LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Section):
    """Element types of the parameters that match: in the source, archive and graph."""

    match: str = key(Text("a pattern"), "parameters it holds for; * matches anything")
    source: str | None = optional(
        Choice(SOURCE_ELEMENTS),
        "type in the weight source; left out, any type is converted",
        default=None,
    )
    stored: str = key(
        Choice(STORED_ELEMENTS), "how matrices are stored; vectors stay f32"
    )
    compute: str = key(Choice(COMPUTE_ELEMENTS), "type the components take")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSection(Section):
    """Where the weights come from and how they are stored."""

    source: SourceSection | None = key(
        WEIGHT_SOURCE, "where the weights come from", empty=None
    )
    naming: str = key(
        Choice(("hf", "gguf")),
        "how the source names tensors: as the parameters' hf, or as GGUF",
        empty="",
    )
    expert_axis: int = optional(
        Integer(-1, 0),
        "axis of the experts in the source's tensors: 0 is [n_expert, n_out, n_in],"
        " -1 is [n_out, n_in, n_expert]",
        default=0,
    )
    ignore: tuple[str, ...] = optional(
        ListOf(Text("a pattern")),
        "tensors of the source that no parameter needs; * matches anything",
    )
    tied: tuple[str, ...] = optional(
        ListOf(PARAMETER, min=1),
        "parameters that this model does not have: the one that the architecture"
        " says (tied_to) serves for both",
    )
    policy: tuple[Policy, ...] = key(
        ListOf(Policy, min=1),
        "types on the way from source to component; the first match holds",
        empty=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(Section):
    """The sizes that a dynamic dim may have."""

    min: int = key(Integer(1), "smallest size")
    max: int = key(Integer(1), "largest size")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceSection(Section):
    """By how much a check level may differ, whatever float32 loses."""

    max_abs_error: float | None = optional(
        Number(), "largest difference allowed", default=None
    )
    max_range_error: float | None = optional(
        Number(),
        "largest difference allowed, as a share of the range (largest less smallest"
        " value) of what is expected",
        default=None,
    )
    min_cosine: float | None = optional(
        Number(), "smallest cosine allowed", default=None
    )
    reason: str = key(Text(), "why the loss of float32 does not decide")


TOLERANCES = MapOf(ToleranceSection, Choice(CHECK_LEVELS))


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySection(Section):
    """What rounded weights may cost, compared with the source's weights in f32."""

    max_kl: float | None = optional(
        Number(), "largest mean KL divergence, in nats per token", default=None
    )
    min_top_1: float | None = optional(
        Number(), "smallest share of tokens with the same best successor", default=None
    )
    max_perplexity_ratio: float | None = optional(
        Number(), "largest perplexity, as a multiple of the source's", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSection(Section):
    """What the model is checked against."""

    golden: str = optional(PATH, "reference outputs (npz)")
    quality: QualitySection = optional(
        QualitySection, "what rounded weights may cost", default=QualitySection()
    )
    tolerances: Mapping[str, ToleranceSection] = optional(
        TOLERANCES,
        "limits of this model that do not follow from float32's loss, by check level",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherwiseSection(Section):
    """What a model is built from without its own weights."""

    licence: str = key(LICENCE, "licence of these weights")
    source: SourceSection = key(WEIGHT_SOURCE, "where these weights come from")
    policy: tuple[Policy, ...] = optional(
        ListOf(Policy, min=1), "their types; left out, those of the manifest's weights"
    )
    tokenizer: TokenizerSection | None = optional(
        TOKENIZER_SOURCE, "their tokenizer.json", default=None
    )
    golden: str = optional(PATH, "their reference outputs (npz)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsSection(Section):
    """Terms that everyone who uses the weights has to accept."""

    name: str = key(KEBAB, "their name in INGOT_ACCEPT; their text is the licence's")
    otherwise: OtherwiseSection = key(
        OtherwiseSection, "what the model is built from until the user accepts them"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSection(Section):
    """How a decoder's text begins, ends and is drawn, as its checkpoint says."""

    bos: int | None = optional(
        Integer(0),
        "id of the token that begins a text, `bos_token` in a chat template",
        default=None,
    )
    add_bos: bool = optional(
        Boolean(), "whether it does, even if the tokenizer does not add it"
    )
    end_tokens: tuple[int, ...] = optional(
        ListOf(Integer(0), min=1),
        "ids of the tokens that end a text, in addition to those known by name",
    )
    stop: tuple[str, ...] = optional(
        ListOf(Text(has_lines=True), min=1),
        "texts that end a text; they are not written",
    )
    chat_template: str = optional(
        Text("a Jinja template", has_lines=True),
        "how a conversation is written as a prompt",
    )
    temperature: float | None = optional(
        Number(), "what logits are divided by; 0 takes the most likely", default=None
    )
    top_k: int | None = optional(
        Integer(1), "how many of the most likely tokens are drawn from", default=None
    )
    top_p: float | None = optional(
        Number(), "the share of the probability that is drawn from", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile(Section):
    """A manifest as its file states it, without its wrong parts."""

    model: str = key(KEBAB, "the model's name: this file's, without .yaml", empty="")
    architecture: str = key(
        KEBAB, "component graph: models/architectures/<name>.yaml", empty=""
    )
    licence: str = key(LICENCE, "licence of the weights", empty="")
    redistribution: bool | None = optional(
        Boolean(),
        "whether the licence lets you give the weights to others; by default it does"
        " if ingot knows that it does",
        default=None,
    )
    dims: Mapping[str, int] = key(
        MapOf(Integer(1), NAME), "sizes, under GGUF names", empty={}
    )
    hyperparameters: Mapping[str, float | int] = optional(
        MapOf(Number(keeps_integers=True), NAME),
        "numbers that components take, such as layer_norm_eps",
    )
    layers: tuple[str, ...] = optional(
        ListOf(BLOCK, min=1),
        "the blocks of the layers in turn, over and over; left out, as the"
        " architecture says",
    )
    rope_scaling: Mapping[str, ScalingSection] = optional(
        MapOf(ROPE_SCALING, PARAMETER), "by table of rope angles, how it is scaled"
    )
    dynamic: Mapping[str, Range] = key(
        MapOf(Range, NAME), "dims that stay dynamic, with ranges", empty={}
    )
    weights: WeightsSection = key(
        WeightsSection,
        "where the weights come from and how they are stored",
        empty=WeightsSection(),
    )
    tokenizer: TokenizerSection | None = optional(
        TOKENIZER_SOURCE, "the tokenizer to ship", default=None
    )
    terms: TermsSection | None = optional(
        TermsSection, "terms that ask for the user's acceptance", default=None
    )
    generation: GenerationSection = optional(
        GenerationSection,
        "how a decoder's text begins, ends and is drawn",
        default=GenerationSection(),
    )
    check: CheckSection = optional(
        CheckSection, "what the model is checked against", default=CheckSection()
    )
    limits: LimitsSection = optional(
        LimitsSection,
        "when an action of the model is stopped, instead of the target's limits",
        default=LimitsSection(),
    )
    bench: Mapping[str, tuple[Mapping[str, int], ...]] = optional(
        MapOf(ListOf(MapOf(Integer(1), NAME), min=1), NAME),
        "sizes of the dynamic dims that each entry point is timed at",
    )
