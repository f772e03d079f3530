"""Test that chat templates write prompts, and do nothing else."""

from __future__ import annotations

import pytest

from ingot.bundles import conversation
from ingot.bundles.conversation import render_apart
from ingot.errors import IngotError
from ingot.runtime.chat_template import Message, render

HELLO = [Message(role="user", content="Hello")]
HINT = "see generation.chat_template of the manifest; template=none does without it"
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system'"
    " %}{{ '<|im_start|>system\nYou are helpful<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' +"
    " '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)


def test_a_conversation_becomes_a_prompt() -> None:
    assert render(SMOLLM2, HELLO, {}) == (
        "<|im_start|>system\nYou are helpful<|im_end|>\n<|im_start|>user\nHello"
        "<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        ("{{ bos_token }}{{ messages[0].content }}", "<s>Hello"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Hello"}]'),
        (
            "{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}"
            "{% endfor %}",
            "1",
        ),
        ("  {% if true %}\na\n  {% endif %}\nb", "a\nb"),
        ("{% generation %}a{% endgeneration %}", "a"),
        ("{{ strftime_now('%%') }}", "%"),
        ("{{ 'é日😀' }}", "é日😀"),
    ],
)
def test_templates_have_what_those_of_the_hub_use(template: str, prompt: str) -> None:
    assert render(template, HELLO, {"bos_token": "<s>"}) == prompt


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("a\n{% for %}", "line 2: Expected an expression"),
        ("{{ a.b.c }}", "'a' is undefined"),
        (
            "{{ raise_exception('roles alternate') }}",
            "it rejects the conversation: roles alternate",
        ),
        ("{% include '/etc/passwd' %}", "it reads other files"),
        ("{% import '/etc/passwd' as x %}", "it reads other files"),
        ("{{ ''.__class__.__mro__ }}", "it does what the sandbox forbids: "),
        ("{{ cycler.__init__.__globals__.os }}", "it does what the sandbox forbids: "),
        ("{{ messages.append(1) }}", "it does what the sandbox forbids: "),
        (
            "{% for i in range(99999) %}{{ '0123456789abcdef' }}{% endfor %}",
            "it writes more than 1048576 characters",
        ),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_template_that_is_wrong_or_dangerous_is_an_error(
    template: str, says: str
) -> None:
    with pytest.raises(IngotError) as caught:
        render(template, HELLO, {})
    assert caught.value.message.startswith(f"chat_template: {says}")
    assert caught.value.hint == HINT


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
            "{% endfor %}",
            "it takes longer than 1 s",
        ),
        ("{{ 'a' * 10000000000 }}", "it needs too much memory"),
        ("{% include 'x' %}", "it reads other files"),
    ],
)
def test_a_process_of_its_own_limits_time_and_memory(
    template: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "CPU_S", 1)
    with pytest.raises(IngotError) as caught:
        render_apart(template, HELLO, {})
    assert str(caught.value) == f"chat_template: {says}\n  {HINT}"


def test_a_process_of_its_own_writes_the_same_prompt() -> None:
    text = render_apart(
        "{{ bos_token }}{{ messages[0].content }}é", HELLO, {"bos_token": "<s>"}
    )
    assert text == "<s>Helloé"
