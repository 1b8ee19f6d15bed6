"""The built-in functions that a policy may call: pure ones that both engines have, with their number of arguments."""

from __future__ import annotations

_BY_ARITY = {
    1: """abs array.reverse base64.decode base64.encode base64.is_valid base64url.decode base64url.encode
        base64url.encode_no_pad bits.negate ceil count floor glob.quote_meta hex.decode hex.encode intersection
        is_array is_boolean is_null is_number is_object is_set is_string json.is_valid json.marshal json.unmarshal
        json.verify_schema lower max min net.cidr_expand net.cidr_is_valid object.keys object.union_n product
        regex.is_valid round semver.is_valid sort strings.reverse sum time.clock time.date time.format
        time.parse_duration_ns time.parse_rfc3339_ns time.weekday to_number trim_space type_name union units.parse
        units.parse_bytes upper urlquery.decode urlquery.decode_object urlquery.encode urlquery.encode_object
        yaml.is_valid yaml.marshal yaml.unmarshal""",
    2: """array.concat bits.and bits.lsh bits.or bits.rsh bits.xor concat contains endswith format_int
        graph.reachable graph.reachable_paths indexof indexof_n json.filter json.match_schema json.patch json.remove
        net.cidr_contains numbers.range object.filter object.remove object.subset object.union regex.match
        regex.split semver.compare split sprintf startswith strings.any_prefix_match strings.any_suffix_match
        strings.count strings.replace_n time.diff time.parse_ns trim trim_left trim_prefix trim_right trim_suffix
        walk""",
    3: """array.slice glob.match numbers.range_step object.get regex.find_all_string_submatch_n regex.find_n
        regex.replace replace substring""",
    4: """regex.template_match time.add_date""",
}

ARITIES = {name: arity for arity, names in _BY_ARITY.items() for name in names.split()}
"""`walk` counts with its output, the form in which engines agree: `walk(value, [path, part])`."""

_REASONS = (
    ("http.", "asks the network; what a rule needs comes as input"),
    ("net.lookup_ip_addr", "asks the network; what a rule needs comes as input"),
    ("time.now_ns", "reads a clock; use input.now_ns"),
    ("rand.", "is random, so that a decision could not be repeated"),
    ("uuid.", "is random, so that a decision could not be repeated"),
    ("opa.runtime", "shows the environment of the engine"),
    ("io.jwt.", "is not in the embedded engine; the host verifies tokens, see input.identity.claims"),
    ("crypto.", "is not in the embedded engine"),
    ("graphql.", "is not in the embedded engine"),
    ("rego.", "is not in the embedded engine"),
    ("print", "prints nowhere"),
    ("trace", "prints nowhere"),
)


def why_not(name: str) -> str:
    """Why a policy may not call a function of this name."""
    for beginning, reason in _REASONS:
        if name == beginning or (beginning.endswith(".") and name.startswith(beginning)):
            return f"{name} {reason}"
    return f"there is no function {name}, or not in every engine"
