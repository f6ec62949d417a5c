"""A scripted model on loopback that speaks the APIs of four vendors, so that real agent programs run without one."""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

FINAL_TEXT = "All steps are done."


class Step(NamedTuple):
    """A tool that the model calls, by the name that the server gave it."""

    tool: str
    arguments: Mapping[str, Any]


class Request(NamedTuple):
    """What a program sent to the model: its text, the names of the tools in it, and the results of calls so far."""

    path: str
    text: str
    tools: Sequence[str]
    results: Sequence[str]


@dataclass
class ScriptedModel:
    """Calls the tools of its steps one after the other, then ends its turn."""

    steps: Sequence[Step]
    address: str = ""
    final_texts: list[str] = field(default_factory=list)
    """How its first turns end; the others end with `FINAL_TEXT`."""
    requests: list[Request] = field(default_factory=list)
    searches: int = 0

    @property
    def first(self) -> Request:
        """The first request in which the program asks the model to work, and not for a title or a summary."""
        return next(request for request in self.requests if request.tools)

    @property
    def results(self) -> Sequence[str]:
        return max((request.results for request in self.requests), key=len, default=())

    def final_text(self, request: Request) -> str:
        """Return the text that ends a turn; a request without tools is for a title or a summary."""
        return self.final_texts.pop(0) if self.final_texts and request.tools else FINAL_TEXT

    def next_call(self, request: Request) -> tuple[str, Mapping[str, Any]] | None:
        """Return the program's name of the next tool and its arguments, or None if the work is done."""
        if not request.tools or len(request.results) - self.searches >= len(self.steps):
            return None
        step = self.steps[len(request.results) - self.searches]
        named = [name for name in request.tools if re.search(rf"(^|[^a-z]){step.tool}$", name)]
        if named:
            return named[0], step.arguments
        # Some programs show the names of tools only, and load the rest by a search.
        if self.searches:
            return None
        self.searches += 1
        if "tool_search" in request.tools:
            found = [re.search(rf"mcp__\w*_{step.tool}\b", request.text) for step in self.steps]
            return "tool_search", {
                "query": "select:" + ",".join({match[0]: None for match in found if match})
            }
        # On a busy machine, a local server may still be starting.
        return ("WaitForMcpServers", {}) if "WaitForMcpServers" in request.tools else None


@contextmanager
def scripted_model(*steps: Step, model: ScriptedModel | None = None) -> Iterator[ScriptedModel]:
    """Serve a scripted model on a free port of this machine."""
    model = model or ScriptedModel(steps)
    handler = type("Handler", (_Handler,), {"model": model})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    model.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel
    final_text = FINAL_TEXT

    def log_message(self, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send_json({"data": [], "models": []})

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode(errors="replace")
        try:
            body = json.loads(text)
        except ValueError:
            body = {}
        for pattern, read, answer in _DIALECTS:
            if re.search(pattern, self.path) and isinstance(body, dict):
                tools, results = read(body)
                request = Request(self.path, text, tools, results)
                self.model.requests.append(request)
                call = self.model.next_call(request)
                self.final_text = FINAL_TEXT if call else self.model.final_text(request)
                return answer(self, body, call, len(self.model.requests))
        return self._send_json({"input_tokens": 10, "totalTokens": 10})

    def answer_anthropic(self, body: Any, call: Any, number: int) -> None:
        """Answer as Anthropic's Messages API."""
        if call:
            block: Any = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": self.final_text}
        usage = {"input_tokens": 1000, "output_tokens": 20}
        message: Any = {
            **{"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model")},
            **{"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage},
        }
        reason = "tool_use" if call else "end_turn"
        if not body.get("stream"):
            block = {**block, "input": call[1]} if call else {"type": "text", "text": self.final_text}
            return self._send_json({**message, "content": [block], "stop_reason": reason})
        end = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}
        return self._send_events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {**end, "usage": {"output_tokens": 20}},
            {"type": "message_stop"},
        )

    def answer_responses(self, body: Any, call: Any, number: int) -> None:
        """Answer as OpenAI's Responses API."""
        if call:
            namespace, _, name = call[0].rpartition(".")
            item: Any = {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "name": name,
            }
            item |= {"arguments": json.dumps(call[1]), "status": "completed"}
            item |= {"namespace": namespace} if namespace else {}
        else:
            content = [{"type": "output_text", "text": self.final_text, "annotations": []}]
            item = {"type": "message", "id": f"m_{number}", "role": "assistant", "status": "completed"}
            item |= {"content": content}
        usage = {
            **{"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20},
            **{"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 1020},
        }
        response = {
            "id": f"r_{number}",
            "object": "response",
            "status": "completed",
            "output": [item],
            "usage": usage,
        }
        self._send_events(
            {"type": "response.created", "response": {"id": f"r_{number}"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        )

    def answer_chat(self, body: Any, call: Any, number: int) -> None:
        """Answer as OpenAI's Chat Completions API, which many programs speak."""
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
            message: Any = {"role": "assistant", "content": None, "tool_calls": calls}
        else:
            message = {"role": "assistant", "content": self.final_text}
        reason = "tool_calls" if call else "stop"
        usage = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
        head = {"id": f"c_{number}", "created": 1, "model": body.get("model")}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return self._send_json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        head["object"] = "chat.completion.chunk"
        chunks = [
            {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return self._send(data.encode(), "text/event-stream")

    def answer_gemini(self, body: Any, call: Any, number: int) -> None:
        """Answer as Google's generateContent."""
        part: Any = (
            {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": self.final_text}
        )
        answer = {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 20, "totalTokenCount": 1020},
        }
        if "stream" not in self.path.lower():
            return self._send_json(answer)
        return self._send(f"data: {json.dumps(answer)}\r\n\r\n".encode(), "text/event-stream")

    def _send_events(self, *events: dict[str, Any]) -> None:
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send(data.encode(), "text/event-stream")

    def _send_json(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _send(self, body: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _read_anthropic(body: Any) -> tuple[list[str], list[str]]:
    blocks = [
        block
        for message in body.get("messages", [])
        if isinstance(message.get("content"), list)
        for block in message["content"]
    ]
    results = [_as_text(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
    return [tool.get("name", "") for tool in body.get("tools", [])], results


def _read_responses(body: Any) -> tuple[list[str], list[str]]:
    tools: list[str] = []
    for tool in body.get("tools", []):
        inner = tool.get("tools", []) if tool.get("type") == "namespace" else []
        tools += [f"{tool['name']}.{item.get('name', '')}" for item in inner] or [tool.get("name", "")]
    items = body.get("input") if isinstance(body.get("input"), list) else []
    results = [_as_text(item.get("output")) for item in items if item.get("type") == "function_call_output"]
    return tools, results


def _read_chat(body: Any) -> tuple[list[str], list[str]]:
    tools = [tool.get("function", {}).get("name", "") for tool in body.get("tools", [])]
    messages = body.get("messages", [])
    return tools, [_as_text(item.get("content")) for item in messages if item.get("role") == "tool"]


def _read_gemini(body: Any) -> tuple[list[str], list[str]]:
    declared = [item for tool in body.get("tools", []) for item in tool.get("functionDeclarations", [])]
    parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
    results = [_as_text(part["functionResponse"]) for part in parts if "functionResponse" in part]
    return [tool.get("name", "") for tool in declared], results


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_DIALECTS = (
    (r"/messages(\?|$)", _read_anthropic, _Handler.answer_anthropic),
    (r"/responses(\?|$)", _read_responses, _Handler.answer_responses),
    (r"/chat/completions(\?|$)", _read_chat, _Handler.answer_chat),
    (r":(stream)?[gG]enerateContent", _read_gemini, _Handler.answer_gemini),
)
