"""What models write in each channel: the text, and the calls in it."""

from proxy.channels import CHANNELS, ChannelOptions
from proxy.channels.scanner import Scanner

READ = '{"id": 4}'
TEXTS: dict[str, list[tuple[str, list[tuple[str, str]]]]] = {
    "tags": [
        ('Well.\n<tool_call>\n{"name": "read", "arguments": {"id": 4}}\n</tool_call>', [("read", READ)]),
        (
            '<tool_call>{"name":"read","arguments":{"id": 4}}</tool_call><tool_call>{"name":"b","arguments":{}}</tool_call>',
            [("read", READ), ("b", "{}")],
        ),
        (
            "<tool_call>\n<function=read>\n<parameter=id>\n4\n</parameter>\n</function>\n</tool_call>",
            [("read", '{"id": "4"}')],
        ),
        ('<function=read>{"id": 4}</function>', [("read", READ)]),
        ('<invoke name="read"><parameter name="id">4</parameter></invoke>', [("read", '{"id": "4"}')]),
        ("<tool_call>{broken</tool_call>", [("unreadable_call", "{broken")]),
        ("<tool_call>{broken", [("unreadable_call", "{broken")]),
        (
            "<tool_call><function=b></function><function=read><parameter=id>4</parameter></tool_call>",
            [("b", "{}"), ("read", '{"id": "4"}')],
        ),
        (
            '<tool_call>{"x": 1}<function=b></function></tool_call>',
            [("unreadable_call", '{"x": 1}<function=b></function>')],
        ),
        ("a < b, a <tool> and <tool_calls>", []),
    ],
    "control_tokens": [
        ('[TOOL_CALLS][{"name": "read", "arguments": {"id": 4}}]', [("read", READ)]),
        ('[TOOL_CALLS]read[ARGS]{"id": 4}', [("read", READ)]),
        ('[TOOL_CALLS]read[CALL_ID]x1[ARGS]{"id": 4}[TOOL_CALLS]b[ARGS]{}', [("read", READ), ("b", "{}")]),
        ('<|python_tag|>{"name": "read", "parameters": {"id": 4}}<|eom_id|>', [("read", READ)]),
        ("<|python_tag|>print(1)<|eom_id|>", [("python", '{"code": "print(1)"}')]),
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{"id": 4}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            [("read", READ)],
        ),
        (
            '<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"id": 4}<|tool_call_end|><|tool_calls_section_end|>',
            [("read", READ)],
        ),
        ('<｜tool▁call▁begin｜>read<｜tool▁sep｜>{"id": 4}<｜tool▁call▁end｜>', [("read", READ)]),
        ('<|tool_call_begin|>functions.read:1<|tool_call_argument_begin|>{"id": 4}', [("read", READ)]),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>b<｜tool▁sep｜>{}<｜tool▁call▁end｜>read<｜tool▁calls▁end｜>",
            [
                (
                    "unreadable_call",
                    "<｜tool▁call▁begin｜>b<｜tool▁sep｜>{}<｜tool▁call▁end｜>read",
                )
            ],
        ),
        ('<|python_tag|>{"name": "read"', [("unreadable_call", '{"name": "read"')]),
        ('<|tool_call|>[{"name": "read", "arguments": {"id": 4}}]', [("read", READ)]),
        ("[TOOL] [TOOLS]", []),
    ],
    "react": [
        ('Thought: Look.\nAction: read\nAction Input: {"id": 4}', [("read", READ)]),
        ("Action: read\nAction Input: the note", [("read", '{"input": "the note"}')]),
        ("Action: read[the note]", [("read", '{"input": "the note"}')]),
        ('Action: read\nAction Input: {"id": 4}\nObservation: made up\nFinal Answer: 7', [("read", READ)]),
        ('So I take Action 1 : read\nAction Input 1: {"id": 4}', [("read", READ)]),
        ('**Action:** `read`\n**Action Input:** {"id": 4}', [("read", READ)]),
        (
            'Action: read\nAction Input: {"id": 4}\nThought: and more',
            [("read", '{"id": 4}\nThought: and more')],
        ),
        (
            "Action: read\nAction Input: x\nAction: b\nAction Input: y",
            [("unreadable_call", ": read\nAction Input: x\nAction: b\nAction Input: y")],
        ),
        ('Action:\n```json\n{"action": "read", "action_input": {"id": 4}}\n```', [("read", READ)]),
        (
            'Action: read (now)\nAction Input: {"id": 4}',
            [("unreadable_call", ': read (now)\nAction Input: {"id": 4}')],
        ),
        ("Action: read[a]. Then more", [("unreadable_call", "read[a]. Then more")]),
        ("Action: read[a] b[c]", [("unreadable_call", "read[a] b[c]")]),
        ('Action:\n```\n{"action": "read", "action_input": {"id": 4}}\n```\nWell.', [("read", READ)]),
        ('Well:\n```json\n{"action": "read", "action_input": {"id": 4}}```', [("read", READ)]),
        ("Action" + " " * 80 + ": read\nAction Input: x", [("read", '{"input": "x"}')]),
        ("Actions speak. Action is good", []),
        ("Action: see [3]", []),
        ("Action: Finish[seven]", []),
        ("Thought: done\nFinal Answer: Take Action: now", []),
        ("Action: the action to take, should be one of [read]", []),
    ],
    "fences": [
        ('Look:\n```json\n{"tool": "read", "args": {"id": 4}}\n```', [("read", READ)]),
        ('Look:\n```\n{"tool": "read", "args": {"id": 4}}\n```', [("read", READ)]),
        ('```json {"tool": "read", "args": {"id": 4}}``` and so on', [("read", READ)]),
        (
            '```json {"tool": "read", "args": {}}``` and ```json {"tool": "b", "args": {}}```',
            [("unreadable_call", '{"tool": "read", "args": {}}``` and ```json {"tool": "b", "args": {}}```')],
        ),
        ('```json\n{"tool": "read", "args": {"x": "```"}}\n```', [("read", '{"x": "```"}')]),
        ('```json\n{"action": "Final Answer", "action_input": "7"}\n```', []),
        ('```json\n{"title": "no call"}\n```', []),
        (
            "```python\nlook() #<code>read(4)</code>\n```",
            [("unreadable_call", "look() #<code>read(4)</code>")],
        ),
        ("Thought: x\n```python\nread(4)\n```", [("python", '{"code": "read(4)"}')]),
        ("<code>\nread(4)\n</code>", [("python", '{"code": "read(4)"}')]),
        ("```pythonread(4)\n```", [("python", '{"code": "read(4)"}')]),
        ("read(4)", [("python", '{"code": "read(4)"}')]),
        ("x = 1\nif x:\n    read(x)\n", [("python", '{"code": "x = 1\\nif x:\\n    read(x)"}')]),
        ("```\nplain\n```", []),
    ],
    "patches": [
        (
            "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch",
            [("apply_patch", '{"patch": "*** Add File: a\\n+x"}')],
        ),
        ("```diff\n-a\n+b\n```", [("apply_patch", '{"patch": "-a\\n+b"}')]),
        ("It said *** Begin", []),
    ],
    "structured": [
        ('{"action": "read", "action_input": {"id": 4}}', [("read", READ)]),
        (' [{"name": "read", "parameters": {"id": 4}}]', [("read", READ)]),
        ('Here:\n```json\n{"action": "read", "action_input": {"id": 4}}\n```', [("read", READ)]),
        ('{"action": "read"}', [("read", "{}")]),
        ('{"action": "final_answer", "action_input": "7"}', []),
        ('{"answer": 7}', []),
        ('Not {"name": "read", "parameters": {}}', []),
    ],
}
CASES = [(name, text, calls) for name, cases in TEXTS.items() for text, calls in cases]


def scanner_of(name: str) -> Scanner:
    """One that listens for this channel alone."""
    channel = CHANNELS[name](ChannelOptions())
    return Scanner(channel.rules, channel.whole)


def scanned(name: str, *pieces: str) -> Scanner:
    """The text, read in these pieces."""
    scanner = scanner_of(name)
    for piece in pieces:
        scanner.feed(piece)
    scanner.end()
    return scanner


def calls_in(scanner: Scanner) -> list[tuple[str, str]]:
    return [call for region in scanner.regions for call in region.calls]
