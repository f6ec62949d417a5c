"""Texts that would run a script on a page without escaping."""

CALL = "document.documentElement.dataset.xss=1"
_TAGS = ["img", "svg", "video", "details"]
_EVENTS = ["onload", "onerror", "ontoggle"]

PAYLOADS = [
    f"<script>{CALL}</script>",
    f"</title><script>{CALL}</script>",
    f"</textarea><script>{CALL}</script>",
    f"</style><script>{CALL}</script>",
    f"</pre></div></td><script>{CALL}</script>",
    f'"><script>{CALL}</script>',
    f"'><script>{CALL}</script>",
    f"--><script>{CALL}</script>",
    f"]]><script>{CALL}</script>",
    f'" autofocus onfocus="{CALL}" x="',
    f"' autofocus onfocus='{CALL}' x='",
    f"javascript:{CALL}",
    f"data:text/html,<script>{CALL}</script>",
    f"{{{{constructor.constructor('{CALL}')()}}}}",
    "{% load static %}{{ settings.SECRET_KEY }}",
    f"${{{CALL}}}",
    f"<%= {CALL} %>",
    f"&lt;script&gt;{CALL}&lt;/script&gt;",
    f"\\u003cscript\\u003e{CALL}\\u003c/script\\u003e",
    f"<scr<script>ipt>{CALL}</scr</script>ipt>",
    f"<svg><script>{CALL}</script></svg>",
    f"<a href='javascript:{CALL}'>x</a>",
    f"<form action='javascript:{CALL}'><button>x",
    f"<button formaction='javascript:{CALL}'>x",
    f"<meta http-equiv=refresh content='0;javascript:{CALL}'>",
    "<base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/x.css'>",
    "<style>*{display:none}</style>",
    f"<div hx-get='javascript:{CALL}' hx-trigger='load'>",
    f"<div hx-on:click='{CALL}' hx-trigger='load'>",
    f"<div hx-vals='js:{{x:{CALL}}}' hx-get='/' hx-trigger='load'>",
    f"<iframe srcdoc='<script>parent.{CALL}</script>'></iframe>",
    f"<object data='javascript:{CALL}'></object>",
    f"<xss style='animation-name:x' onanimationstart='{CALL}'></xss>",
    f"<svg/onload={CALL}>",
    f"<svg><animate onbegin={CALL} attributeName=x dur=1s>",
    f"<!--<img src='--><img src=x onerror={CALL}//'>",
]
PAYLOADS += [f"<{tag} src=x {event}={CALL}>" for tag in _TAGS for event in _EVENTS]
