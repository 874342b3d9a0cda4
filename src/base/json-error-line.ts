// The line of the first error in a text that is not JSON. The runtime's own error has no position.

const TOKEN =
  /\s*(?:("(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|([[\]{},:]))/uy;

/** What may follow: a value, a member's name, a colon, or a comma or the end of the list. */
type Expected = "value" | "value_or_end" | "name" | "name_or_end" | "colon" | "comma_or_end";

/** The line, from 1, of the first token that is not valid, or of the end of the text. */
export function jsonErrorLine(text: string): number {
  const open: string[] = [];
  let expected: Expected = "value";
  let at = 0;
  for (;;) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    const [, value, mark] = match ?? [];
    const next: Expected | undefined =
      match === null ? undefined : nextExpected(open, expected, { value, mark });
    if (next === undefined) break;
    expected = next;
    at = TOKEN.lastIndex;
    if (open.length === 0 && expected === "comma_or_end") break;
  }
  const rest = text.slice(at);
  const offset = at + (rest.length - rest.trimStart().length);
  return text.slice(0, offset).split("\n").length;
}

/** Undefined if the token is not expected. `open` has the closing marks of the lists around it. */
function nextExpected(
  open: string[],
  expected: Expected,
  { value, mark }: { readonly value: string | undefined; readonly mark: string | undefined },
): Expected | undefined {
  if (value === undefined) return afterMark(open, expected, mark);
  if (expected.startsWith("value")) return "comma_or_end";
  return expected.startsWith("name") && value.startsWith('"') ? "colon" : undefined;
}

function afterMark(
  open: string[],
  expected: Expected,
  mark: string | undefined,
): Expected | undefined {
  switch (mark) {
    case "{":
    case "[":
      if (!expected.startsWith("value")) return undefined;
      open.push(mark === "{" ? "}" : "]");
      return mark === "{" ? "name_or_end" : "value_or_end";
    case ":":
      return expected === "colon" ? "value" : undefined;
    case ",":
      if (expected !== "comma_or_end" || open.length === 0) return undefined;
      return open.at(-1) === "}" ? "name" : "value";
    case undefined:
    default:
      if (!expected.endsWith("end") || open.at(-1) !== mark) return undefined;
      open.pop();
      return "comma_or_end";
  }
}
