// Validates a request against its route's schema. A mismatch becomes a 400 whose message names the field.

import { z } from "zod";
import { Fault } from "../../base/fault.ts";
import { closestName, NAME_MAX_CHARACTERS, shortName } from "../../base/text/suggest.ts";

export type InputLocation = "path" | "query" | "body";

type Issue = z.core.$ZodIssue;

/** How zod's own messages begin. Our schemas' messages continue a sentence whose subject is the field: "must be …". */
const DEFAULT_MESSAGE = /^(?:Invalid |Too (?:small|big): |Unrecognized key)/;

/** The value as its schema parses it. */
export function parseWithSchema<T>(
  schema: z.ZodType<T>,
  value: unknown,
  location: InputLocation,
): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // A misspelled name is both an unknown and a missing field: the error names what was sent.
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0];
  if (issue === undefined) throw new Error("a failed validation without an issue");
  const path = issue.path.map(String).join(".");
  const unknownName = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const param = [path, unknownName && shortName(unknownName)].filter(Boolean).join(".");
  const isDefault = DEFAULT_MESSAGE.test(issue.message);
  const message =
    unknownName !== undefined
      ? unknownFieldMessage(param, unknownName, {
          kind: location === "query" ? "query parameter" : "field",
          names: fieldNames(schema, issue.path),
        })
      : isDefault
        ? defaultMessage(issue, value)
        : withSubject(path, issue.message);
  throw new Fault("invalid_request", message, {
    message,
    ...(param === "" ? {} : { param }),
    ...(location === "query" || (location === "body" && isDefault) ? { malformed: location } : {}),
  });
}

function unknownFieldMessage(
  param: string,
  name: string,
  { kind, names }: { readonly kind: string; readonly names: readonly string[] },
): string {
  const unknown = `Unknown ${kind} \`${param}\`.`;
  if (names.length === 0) return `${unknown} No ${kind}s are supported here.`;
  const meant = name.length > NAME_MAX_CHARACTERS ? undefined : closestName(name, names);
  return meant === undefined
    ? `${unknown} Supported: ${codeList(names)}.`
    : `${unknown} Did you mean \`${meant}\`?`;
}

function withSubject(path: string, message: string): string {
  const sentence = /[.!?]$/.test(message) ? message : `${message}.`;
  if (!/^[a-z]/.test(sentence)) return sentence;
  return path === "" ? `The request body ${sentence}` : `\`${path}\` ${sentence}`;
}

function defaultMessage(issue: Issue, value: unknown): string {
  const path = issue.path.map(String).join(".");
  const isMissing = path !== "" && valueAt(value, issue.path) === undefined;
  return withSubject(path, isMissing ? "is required" : requirementOf(issue));
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  array: "an array",
  boolean: "true or false",
  int: "an integer",
  null: "null",
  object: "an object",
  record: "an object",
};

const FORMAT_REQUIREMENTS: Readonly<Record<string, string>> = {
  datetime: "must be an RFC 3339 timestamp, such as 2027-01-31T00:00:00Z",
  email: "must be an email address",
  url: "must be a URL",
};

/** What the field has to be, as the end of a sentence. */
function requirementOf(issue: Issue): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${TYPE_NAMES[issue.expected] ?? `a ${issue.expected}`}`;
    case "invalid_value":
      return oneOf(issue.values);
    case "too_small":
    case "too_big":
      return sizeRequirement(issue);
    case "invalid_format":
      return FORMAT_REQUIREMENTS[issue.format] ?? "has an invalid format";
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}`;
    case "invalid_union":
      return "options" in issue ? oneOf(issue.options ?? []) : "is invalid";
    case "unrecognized_keys":
    case "invalid_key":
    case "invalid_element":
    case "custom":
      return "is invalid";
  }
}

function sizeRequirement(issue: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig): string {
  const isInclusive = issue.inclusive !== false;
  const [limit, comparison] =
    issue.code === "too_small"
      ? [issue.minimum, isInclusive ? "at least" : "more than"]
      : [issue.maximum, isInclusive ? "at most" : "less than"];
  const unit =
    issue.origin === "string" ? "character" : issue.origin === "array" ? "item" : undefined;
  if (unit === undefined) return `must be ${comparison} ${limit}`;
  return `must have ${comparison} ${limit} ${unit}${Number(limit) === 1 ? "" : "s"}`;
}

function oneOf(values: readonly unknown[]): string {
  const list = codeList(values.map(String));
  if (values.length === 0) return "is invalid";
  return values.length === 1 ? `must be ${list}` : `must be one of ${list}`;
}

function codeList(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(", ");
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, name) =>
      typeof inner === "object" && inner !== null && Object.hasOwn(inner, name)
        ? Reflect.get(inner, name)
        : undefined,
    value,
  );
}

/** The names of the fields that the object at this path may have. */
function fieldNames(schema: z.core.$ZodType, path: readonly PropertyKey[]): readonly string[] {
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault
  )
    return fieldNames(schema.unwrap(), path);
  if (schema instanceof z.ZodUnion)
    return [...new Set(schema.options.flatMap((option) => fieldNames(option, path)))];
  const [name, ...rest] = path;
  if (schema instanceof z.ZodArray) return fieldNames(schema.element, rest);
  if (!(schema instanceof z.ZodObject)) return [];
  if (name === undefined) return Object.keys(schema.shape);
  const member = schema.shape[String(name)];
  return member === undefined ? [] : fieldNames(member, rest);
}
