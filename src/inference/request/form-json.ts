// A form as JSON, so that all stages of a call read one kind of body. A file is an object with its hash and what its price
// depends on; its bytes stay beside the JSON, and are put in its place again when the form is sent.

import { createHash } from "node:crypto";
import type { RelayedEndpoint, RelayedForm } from "@postern/wires";
import { invalid } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { FormEntry, FormFile } from "../../http/request/multipart-body.ts";

type FormFields = NonNullable<RelayedEndpoint["form"]>;

/** The position of a file's bytes. A field of a form is text, so that no caller can write it. */
const POSITION = "form_file";
const LIST_SUFFIX = "[]";

export function jsonOfForm(
  form: readonly FormEntry[],
  { fields, describeFile }: FormFields,
): { readonly text: string; readonly files: readonly FormFile[] } {
  const files: FormFile[] = [];
  const json = new Map<string, unknown>();
  for (const [sentName, value] of form) {
    const isList = sentName.endsWith(LIST_SUFFIX);
    const name = isList ? sentName.slice(0, -LIST_SUFFIX.length) : sentName;
    const isRepeatable = isList || fields[name] === "list";
    const member = typeof value === "string" ? valueOf(name, value, fields) : describe(value);
    const earlier = json.get(name);
    if (Array.isArray(earlier)) earlier.push(member);
    else if (earlier === undefined) json.set(name, isRepeatable ? [member] : member);
    else if (isObject(member)) json.set(name, [earlier, member]);
    else throw invalid(name, `Duplicate field \`${name}\`. Send it once.`);
  }
  return { text: JSON.stringify(Object.fromEntries(json)), files };

  function describe(file: FormFile): JsonObject {
    const { bytes, filename, contentType } = file;
    files.push(file);
    const hash = createHash("sha256").update(`${filename}\0${contentType}\0`).update(bytes);
    // Numbers, because text on a shared account could refer to another caller's storage.
    const sha256 = [...new Uint32Array(new Uint8Array(hash.digest()).buffer)];
    return { [POSITION]: files.length - 1, bytes: bytes.length, sha256, ...describeFile(bytes) };
  }
}

function valueOf(name: string, text: string, fields: FormFields["fields"]): unknown {
  const type = name === "postern" ? "json" : fields[name];
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if (type === "number" && text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  if (type !== "json") return text;
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(name, `\`${name}\` must be JSON.`);
  }
}

/** The entries of the form for a provider, from its JSON. */
export function formOfJson(
  json: JsonObject,
  files: readonly FormFile[],
  form: RelayedForm = "standard",
): readonly FormEntry[] {
  const suffix = form === "mistral" ? "" : LIST_SUFFIX;
  return Object.entries(json).flatMap(([name, value]): readonly FormEntry[] => {
    if (value === undefined || value === null) return [];
    if (Array.isArray(value))
      return value.map((item: unknown) => [name + suffix, entryValue(item, files)]);
    return [[name, entryValue(value, files)]];
  });
}

function entryValue(value: unknown, files: readonly FormFile[]): string | FormFile {
  if (typeof value === "string") return value;
  return fileOf(value, files) ?? JSON.stringify(value);
}

/** The file that a member of a form's JSON stands for. */
export function fileOf(value: unknown, files: readonly FormFile[]): FormFile | undefined {
  const position = isObject(value) ? value[POSITION] : undefined;
  return typeof position === "number" ? files[position] : undefined;
}
