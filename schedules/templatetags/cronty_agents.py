"""Template tags for runs of agents: verdicts, costs, and answers rendered from Markdown."""

import re
from decimal import Decimal

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from schedules.agents.adapters import version_note
from schedules.models import AgentRun
from schedules.templatetags.cronty_statuses import icon

register = template.Library()

Verdict = AgentRun.Verdict
# Colour and icon of each verdict.
_STYLES = {
    Verdict.DONE: ("ok", "check"),
    Verdict.NOTHING_TO_DO: ("pau", "check"),
    Verdict.NEEDS_YOU: ("warn", "inbox"),
    Verdict.REFUSED: ("fail", "ban"),
    Verdict.OVER_BUDGET: ("fail", "alarm"),
    Verdict.TIMED_OUT: ("fail", "alarm"),
    Verdict.FAILED: ("fail", "cross"),
    Verdict.UNKNOWN: ("fail", "warning"),
}
SHOWN_ANSWER = 20_000
_LINK = re.compile(r"https?://[^\s<>\"'`)\]]{1,500}")
_BOLD = re.compile(r"\*\*([^*\n]{1,500})\*\*")
_CODE = re.compile(r"`([^`\n]{1,500})`")
_HEADING = re.compile(r"#{1,6} +(.+)")
_ITEM = re.compile(r"\s{0,8}(?:[-*+]|\d{1,3}[.)]) +(.+)")


@register.simple_tag
def verdict(agent: AgentRun) -> SafeString:
    """Show a verdict as icon and word; a run without one is still working, or was skipped."""
    if not agent.verdict:
        word = "Skipped" if agent.cap else "Working"
        return format_html('<span class="st run">{} {}</span>', icon("turning"), word)
    colour, name = _STYLES[Verdict(agent.verdict)]
    return format_html('<span class="st {}">{} {}</span>', colour, icon(name), agent.get_verdict_display())


@register.filter
def version_warning(agent: AgentRun) -> str:
    """Return a warning if Cronty was not tested with this version of the program."""
    return version_note(agent.kind, agent.program_version)


@register.filter
def dollars(amount: Decimal) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


@register.filter
def answer_text(text: str) -> SafeString:
    """Render common Markdown of an answer: headings, lists, code, bold and links. Any HTML in it is escaped."""
    blocks: list[str] = []
    paragraph: list[str] = []
    items: list[str] = []
    code: list[str] | None = None

    def end_block() -> None:
        if paragraph:
            blocks.append(f"<p>{'<br>'.join(paragraph)}</p>")
        if items:
            blocks.append(f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>")
        paragraph.clear()
        items.clear()

    for line in text[:SHOWN_ANSWER].splitlines():
        if line.lstrip().startswith("```"):
            end_block()
            if code is not None:
                blocks.append(_code_block(code))
            code = [] if code is None else None
        elif code is not None:
            code.append(line)
        elif heading := _HEADING.fullmatch(line):
            end_block()
            blocks.append(f"<h4>{_inline(heading[1])}</h4>")
        elif item := _ITEM.fullmatch(line):
            if paragraph:
                end_block()
            items.append(_inline(item[1]))
        elif not line.strip():
            end_block()
        else:
            if items:
                end_block()
            paragraph.append(_inline(line))
    end_block()
    if code is not None:
        blocks.append(_code_block(code))
    if len(text) > SHOWN_ANSWER:
        blocks.append('<p class="mut">… (shortened)</p>')
    # All text of the agent was escaped above.
    return mark_safe("".join(blocks))  # noqa: S308  # nosec B308 B703


def _code_block(lines: list[str]) -> str:
    return f'<pre tabindex="0">{escape(chr(10).join(lines))}</pre>'


def _inline(text: str) -> str:
    """Escape a line, and render code spans, links and bold text in it."""
    parts = []
    end = 0
    for match in _CODE.finditer(text):
        parts += [_linked(text[end : match.start()]), f"<code>{escape(match[1])}</code>"]
        end = match.end()
    return "".join([*parts, _linked(text[end:])])


def _linked(text: str) -> str:
    parts = []
    end = 0
    for match in _LINK.finditer(text):
        address = match[0].rstrip(".,;:!?*")
        parts += [
            _bold(text[end : match.start()]),
            f'<a href="{escape(address)}" rel="noopener nofollow">{escape(address)}</a>',
        ]
        end = match.start() + len(address)
    return "".join([*parts, _bold(text[end:])])


def _bold(text: str) -> str:
    return _BOLD.sub(r"<b>\1</b>", escape(text))
