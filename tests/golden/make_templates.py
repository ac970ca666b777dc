#!/usr/bin/env python3
"""Write tests/golden/templates.json: chat templates, messages, and what jinja2 makes of them.

jinja2 is set up as Hugging Face's transformers does it. The templates here are written for Portico: each uses what those
of a family of models use (and none is a copy of one), or shows what a construct does. With a folder of templates
(*.jinja), their cases go to stdout instead; those may be refused, and are named '?...'. Needs jinja2.

    python3 tests/golden/make_templates.py
    python3 tests/golden/make_templates.py FOLDER >cases.json
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1700000000  # 14 November 2023, UTC
OUT = pathlib.Path(__file__).parent / "templates.json"


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what an assistant writes; renders what it holds."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda how: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(how)
    return made


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


SYSTEM = {"role": "system", "content": "You are  terse.\n"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": 'The weather of "a place" — <now>',
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "A town's name"},
                "days": {"type": "integer", "minimum": 1, "default": 3},
                "units": {"type": "string", "enum": ["°C", "°F"]},
            },
            "required": ["place"],
        },
    },
}
CALL = {"id": "abc123xyz", "type": "function", "function": {"name": "weather", "arguments": {"place": "Oslo", "days": 2}}}
CHATS = {
    "one": [user("Hello!")],
    "system": [SYSTEM, user(" What is 2+2? ")],
    "turns": [user("Hi"), assistant(" Hello. "), user("Grüße, 東京 🙂\n\nnext <b>line</b> & 'quotes' \"here\"")],
    "all": [SYSTEM, user("a"), assistant("b"), user("c"), assistant("d"), user("e")],
    "answered": [user("a"), assistant("b\n")],
    "thought": [user("a"), assistant("<think>\nhmm\n</think>\n\nb"), user("c"), assistant("<think>so</think>d")],
    "wrong": [assistant("a"), user("b")],
    "twice": [user("a"), user("b")],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]}],
    "call": [user("Weather in Oslo?"), assistant("", tool_calls=[CALL]), {"role": "tool", "content": "rain", "name": "weather",
             "tool_call_id": "abc123xyz"}, assistant("It rains."), user("Thanks")],
}  # fmt: skip
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def variables(chat, tools=None, begin=True, **more):
    return {"messages": chat, "tools": tools, "documents": None, "add_generation_prompt": begin, **TOKENS, **more}


def chats(tools=True):
    for name, chat in CHATS.items():
        for begin in (False, True) if name in ("all", "answered") else (True,):
            yield f"{name}{'+' if begin else ''}", variables(chat, begin=begin)
    if tools:
        yield "tools", variables(CHATS["call"], [WEATHER])
        yield "tools, first", variables(CHATS["system"], [WEATHER, WEATHER])
    yield "thinking off", variables(CHATS["turns"], enable_thinking=False)


def document(made, groups):
    """Of groups of templates by name and variables by name: each template with all of its group."""
    templates, variables, cases = {}, {}, []
    for sources, values in groups:
        templates |= sources
        variables |= values
        for name, source in sources.items():
            for which, value in values.items():
                item = {"name": f"{name}: {which}", "template": name, "variables": which}
                try:
                    item["text"] = made.from_string(source).render(**value)
                except Exception as error:  # whatever jinja2 or what it calls raises
                    item["error"] = f"{type(error).__name__}: {error}"
                cases.append(item)
    what = {"now": NOW, "templates": templates, "variables": variables, "cases": cases}
    return json.dumps(what, ensure_ascii=False, indent=0) + "\n"


# A template for each family, with what its own uses.
FAMILIES = {
    "chatml": """{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
Be helpful.<|im_end|>
' }}{% endif %}{{'<|im_start|>' + m['role'] + '
' + m['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}""",
    "llama2": """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}
{%- else %}{% set rest = messages %}{% set system = false %}{% endif %}
{%- for m in rest %}
  {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('roles must alternate') }}
  {%- endif %}
  {%- if loop.index0 == 0 and system is not false %}
    {%- set content = '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' + m['content'] %}
  {%- else %}
    {%- set content = m['content'] %}
  {%- endif %}
  {%- if m['role'] == 'user' %}{{ bos_token ~ '[INST] ' ~ content.strip() ~ ' [/INST]' }}
  {%- elif m['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}
{%- endfor %}""",
    "llama3": """{{- bos_token }}
{%- if not date is defined %}
    {%- if strftime_now is defined %}{% set date = strftime_now("%d %b %Y") %}{% else %}{% set date = "26 Jul 2024" %}{% endif %}
{%- endif %}
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{#- The system message, or none. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday: " + date + "\\n" + system + "<|eot_id|>" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one call at once") }}{%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}{{- call.arguments | tojson }}{{- "}<|eot_id|>" }}
    {%- elif message.content is mapping or message.content is iterable %}
        {{- message.content | tojson + "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}{% set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set users = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for m in loop_messages %}
    {%- if not (m.role == "tool" or (m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}{{- raise_exception("alternate!") }}{%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in loop_messages %}
    {%- if m["role"] == "user" %}
        {%- if tools is not none and (m == users[-1]) %}
            {{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
            {%- endfor %}
            {{- "][/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system is defined %}{{- "[INST]" + system + "\\n\\n" + m["content"] + "[/INST]" }}
        {%- else %}{{- "[INST]" + m["content"] + "[/INST]" }}{%- endif %}
    {%- elif m.tool_calls is defined and m.tool_calls is not none %}
        {%- for call in m.tool_calls %}
            {%- set out = call.function|tojson %}{{- out[:-1] }}
            {%- if not call.id is defined or call.id|length != 9 %}{{- raise_exception("ids have 9 letters") }}{%- endif %}
            {{- ', "id": "' + call.id + '"}' }}
        {%- endfor %}
    {%- elif m.content is defined and m.content.content is defined %}{{- m.content.content }}
    {%- else %}{{- " " + m["content"]|string + eos_token}}{%- endif %}
{%- endfor %}
""",
    "qwen": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}{%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}{{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role }}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}{{- '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}{{- '\\n' + content }}{%- endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' }}
            {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}""",
    "gemma2": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}""",
    "gemma3": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("roles alternate") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""",
    "phi3": """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] in ('user', 'assistant') %}{{'<|' ~ message.role ~ '|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}""",
    "olmo2": """{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>
' + message['content'] + '
' }}{% elif message['role'] == 'user' %}{{ '<|user|>
' + message['content'] + '
' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>
'  + message['content'] + eos_token + '
' }}{% else %}{% generation %}{{ '<|assistant|>
'  + message['content'] + eos_token }}{% endgeneration %}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>
' }}{% endif %}{% endfor %}""",
    "zephyr": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "macros": """{%- macro content_of(message, wrap=false, sep=', ') -%}
    {%- if message.content is string %}{{ message.content }}{% else %}
        {%- for part in message.content %}{{ part.text | default('(' ~ part.type ~ ')') }}{{ '' if loop.last else sep }}{% endfor %}
    {%- endif %}{% if wrap %}{{ '!' }}{% endif %}
{%- endmacro -%}
{%- macro schema(parameters, depth=0) -%}
    {%- for name, what in parameters.properties | dictsort %}
{{ '  ' * depth }}{{ name }}{{ '?' if name not in parameters.required }}: {{ what.type }}{% if what.enum %} {{ what.enum | join('|') }}{% endif %}
    {%- endfor %}
{%- endmacro -%}
{% for tool in tools or [] %}{{ tool.function.name | upper }}{{ schema(tool['function']['parameters'], depth=1) }}
{% endfor %}
{% for role, text in [('system', 'S'), ('user', 'U')] %}{{ role }}={{ text }};{% endfor %}
{% for message in messages %}{% if message.role == 'tool' %}{% continue %}{% endif %}
<{{ message.role }} {{ loop.index }}/{{ loop.length }} {{ loop.revindex }} {{ loop.cycle('a', 'b') }}>{{ content_of(message, wrap=loop.last) }}
{%- if loop.previtem is defined %} after {{ loop.previtem.role }}{% endif %}
{%- if loop.index > 4 %}{% break %}{% endif %}
{% endfor %}""",
}

# Constructs, each for itself. Those that fail in jinja2 have to fail here.
SNIPPETS = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "a  \n  {% if 1 %} b {% endif %}  \n  c", "x {%- if 1 -%}  \n y {%- endif +%}\n z",
    "  {%+ if 1 %} b{%+ endif %}", "a {# note #} b\n  {# line #}\nc {#- all -#}  d", "{% raw %}{{ x }} {% if %}{% endraw %}\n.",
    "a\n  {%- raw -%}  {{ b }}  {%- endraw %}\n c", "\r\n{{ 'a\r\nb' }}\r\n\r\n", "{{ '{{' }} {{ {'a': {'b': 1}} }} {{ \"}}\" }}",
    r"""{{ 'a\n\t\\\'\"\x41\u00e9\101\q' }}{{ "it's" 'joined' }}""",
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 % 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 7 / 7 }}",
    "{{ 1e20 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 123456789.125 }} {{ 1e16 }} {{ 1.5e300 * 10 }} {{ -0.0 }} {{ 7.0 // 2 }}",
    "{{ 1 ~ 2 + 3 }}", "{{ 1 ~ 'a' ~ none ~ true ~ 1.0 ~ undefined_thing }}", "{{ 'a' + 1 }}", "{{ 'ab' * 3 }}{{ [1] * 2 }}",
    "{{ [1, 'a', none, true, 1.5, {'k': 'v'}, ('t',), (1, 2), ()] }}", "{{ 'it\\'s' | list }} {{ ['it\\'s', '\\n\u00e9\\x7f\u200b'] }}",
    "{{ not 1 == 2 and 3 in [1, 3] or false }}", "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 == true }}",
    "{{ 1 < 'a' }}", "{{ 'b' in 'abc' }} {{ 'k' in {'k': 1} }} {{ 'x' not in 'abc' }} {{ 1 in missing }}",
    "{{ 'x' if false }}|{{ 'x' if false else 'y' if false else 'z' }}", "{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}",
    "{{ missing.attribute }}", "{{ none | default('d') }}|{{ '' | default('d', true) }}|{{ none | default('d', boolean=true) }}",
    "{{ messages[0].role }}{{ messages[0]['role'] }}{{ messages[9] is defined }}{{ messages[-1].nothing }}",
    "{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-2:] }} {{ 'Grüße'[2:4] }} {{ 'Grüße'[3] }} {{ [1,2,3,4][::2] }} {{ [1,2][5:] }} {{ [1,2,3][-9:2] }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.split(none, 1) }}",
    "{{ 'abc'.upper() }} {{ 'ÄÖ x'.lower() }} {{ \"it's a test-case\".title() }} {{ \"it's a test-case x\" | title }} {{ 'aBC dE' | capitalize }}",
    "{{ '  x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcab'.lstrip('ba') }}|{{ ' x\u3000\n' | trim }}|{{ 'xax' | trim('x') }}",
    "{{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 'a1a' | replace('a', 'b', 1) }} {{ 'aXbX'.replace('X', '') }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'é,é'.find(',') }} {{ 'aXaX'.count('X') }}",
    "{{ ', '.join(['a', 'b']) }} {{ [1, none, 'x'] | join('-') }} {{ messages | join(', ', attribute='role') }} {{ ', '.join([1]) }}",
    "{{ 'a\nb\r\nc\n'.splitlines() }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.y'.removesuffix('.y') }} {{ '{} and {b}'.format(1, b='x') }}",
    "{{ {'b': 1, 'a': [1, {}], 'n': none, 't': true, 'f': 0.5, 'e': []} | tojson }}", "{{ {'b': 1, 'a': [1, {}]} | tojson(indent=2) }}",
    "{{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }} {{ 'é\\n\\\"\\x01 </b>🙂' | tojson }} {{ 'é🙂' | tojson(ensure_ascii=true) }}",
    "{{ missing | tojson }}", "{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [1, 3, 2] | sort(reverse=true) }}",
    "{{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ messages | sort(attribute='content') | map(attribute='role') | list }}",
    "{{ [1, 2, 3, 4] | select('odd') | list }} {{ [0, 1, none] | reject | list }} {{ messages | rejectattr('role', 'eq', 'user') | list | length }}",
    "{{ ['a', 'b'] | map('upper') | join }} {{ messages | map(attribute='missing', default='-') | join }} {{ [1, 2] | map('string') | list }}",
    "{{ [1, 1, 2] | unique | list }} {{ [3, 1] | min }} {{ ['a', 'C'] | max }} {{ [1, 2.5] | sum }} {{ [1, 2, 3] | first }} {{ 'abc' | last }} {{ [] | first }}",
    "{{ [1, 2] | select('odd') | length }}", "{{ 'abc' | reverse }} {{ [1, 2] | reverse | list }} {{ 'abc' | length }} {{ 'é🙂' | count }}",
    "{{ '12' | int }} {{ 'x' | int(7) }} {{ '1.9' | int }} {{ 3.7 | int }} {{ '2.5' | float }} {{ -3 | abs }} {{ 3 | string + 'x' }} {{ 'x' | float }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}",
    "{{ x is defined }}{% set x = 1 %}{{ x }}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(a=1, b=[]) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% set ns.b = ns.b + [i] %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = ['x', 'y'] %}{{ c ~ d }}", "{% set a, b = 1, 2, 3 %}", "{% set x %}  a {{ 1 }}\n{% endset %}[{{ x }}]",
    "{% set x | upper | trim %} ab {% endset %}[{{ x }}]{% filter upper %}abc{{ 'd' }}{% endfilter %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in [1,2,3] if x != 2 %}{{ loop.index }}{{ x }}{{ loop.last }}{% else %}e{% endfor %}",
    "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ a }}{{ b }}{% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}{% for c in 'aé' %}{{ c }}.{% endfor %}",
    "{% for a in [1, 2] %}{% for b in [3, 4] %}{{ loop.index }}{{ loop.depth }}{% if b == 3 %}{% continue %}{% endif %}{{ a }}{{ b }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{{ loop.nextitem }},{% endfor %}{{ range(2, 8, 3) | list }}{{ range(3, 0, -1) | list }}",
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=5, a=4) }} {{ f() }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
    "{% set x = 1 %}{% macro f() %}{{ x }}{% set x = 9 %}{{ x }}{% endmacro %}{{ f() }}{{ x }}{% set x = 2 %}{{ f() }}", "{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% for x in [1] %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}", "{% with a = 1, b = 2 %}{{ a + b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}",
    "{{ messages[0].get('role') }}{{ messages[0].get('x') }}{{ messages[0].get('x', 'd') }}{{ {'a': 1}.keys() | list }}{{ {'a': 1}.values() | list }}{{ {'items': 1}['items'] }}",
    "{{ 5 is number }}{{ true is number }}{{ true is integer }}{{ 1.0 is float }}{{ 'a' is string }}{{ [] is sequence }}{{ {} is mapping }}{{ 'a' is iterable }}{{ 1 is iterable }}{{ none is none }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 1 is eq 1 }}{{ 'a' is in ['a'] }}{{ 2 is gt(1) }}{{ range is callable }}{{ true is true }}{{ 1 is true }}{{ false is not true }}{{ none is boolean }}",
    "{{ '<b>' | safe }}{{ '<' | safe + '<' }}{{ ('<' | safe) ~ '<' }}", "{{ [].append(1) }}", "{{ 1 // 0 }}", "{{ {}['a']['b'] }}", "{{ -missing }}", "{{ missing + 'a' }}", "{{ none.x }}", "{{ none + 'a' }}", "{{ 5() }}",
    "{% if a %}x{% elif b %}y{% elif not c %}z{% else %}w{% endif %}{% if 0 %}{% else %}{% if 1 %}n{% endif %}m{% endif %}", "{{ strftime_now('%Y-%m-%d %H:%M') }}", "{{ dict(a=1, b='x') }}{{ dict({'k': 1}, c=2)['c'] }}",
    "{{ 'a' 'b' | upper }}{{ ('a' ~ 'b') | upper }}{{ -1 | abs }}{{ not missing }}{{ 1 if missing is not defined else 2 }}", "{{ loop }}", "{{ 08 }}", "{{ (1, 2)[0] }}{{ (1) }}{{ 1, 2 }}", "{%- for x in messages -%} {{- x.role -}} {%- endfor -%} ", "{{ [1,2,3].index(2) }}{{ [1,1].count(1) }}",
    "{% unknown %}", "{% if %}", "{% for x %}", "{{ a b }}", "{% endif %}", "{% set x = %}", "{{ }}", "{{ 'a }}", "{% macro f(a=1, b) %}{% endmacro %}", "{% break %}",
]  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 1:
        found = {f"?{path.stem}": path.read_text() for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja"))}
        sys.stdout.write(document(environment(), [(found, dict(chats()))]))
    else:
        alone = {"alone": {"messages": CHATS["all"], **TOKENS}}
        snippets = {f"{number} {text}": text for number, text in enumerate(SNIPPETS)}
        OUT.write_text(document(environment(), [(FAMILIES, dict(chats())), (snippets, alone)]))
