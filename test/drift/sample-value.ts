// Values of the types of an SDK, from which requests are built.

import { type Member, resolve, type Type, type Types } from "./read-types.ts";

const DEPTH_MAX = 7;

/** The members of an object type, with those that it inherits; undefined for other types. */
export function membersOf(types: Types, type: Type, depth = 0): readonly Member[] | undefined {
  if (depth > DEPTH_MAX) return undefined;
  if (type.kind === "object") return type.members;
  if (type.kind === "name") {
    const found = resolve(types, type);
    return found && membersOf(types, found, depth + 1);
  }
  if (type.kind !== "all") return undefined;
  const byName = new Map(
    type.members
      .flatMap((part) => membersOf(types, part, depth + 1) ?? [])
      .map((member) => [member.name, member]),
  );
  return [...byName.values()];
}

/** The object types of a union, each under the value of its `type` or `role`, or else its name. */
export function variantsOf(types: Types, type: Type, depth = 0): ReadonlyMap<string, Type> {
  const variants = new Map<string, Type>();
  if (depth > DEPTH_MAX) return variants;
  const resolved = type.kind === "name" ? resolve(types, type) : type;
  if (resolved?.kind === "union") {
    for (const member of resolved.members)
      for (const [name, variant] of variantsOf(types, member, depth + 1))
        if (!variants.has(name)) variants.set(name, variant);
    return variants;
  }
  const members = membersOf(types, type);
  if (members === undefined) return variants;
  const tag =
    members.find(({ name }) => name === "type") ?? members.find(({ name }) => name === "role");
  const label = tag && literalsOf(types, tag.type)[0];
  variants.set(String(label ?? (type.kind === "name" ? type.name : "object")), type);
  return variants;
}

/** The words of an enumeration. */
export function literalsOf(types: Types, type: Type, depth = 0): readonly (string | number)[] {
  if (depth > DEPTH_MAX) return [];
  if (type.kind === "literal")
    return typeof type.value === "string" || typeof type.value === "number" ? [type.value] : [];
  if (type.kind === "union")
    return type.members.flatMap((member) => literalsOf(types, member, depth + 1));
  const resolved = type.kind === "name" ? resolve(types, type) : undefined;
  return resolved === undefined ? [] : literalsOf(types, resolved, depth + 1);
}

/** A value of the type; undefined if the reader does not understand it. `name` is the field that has it. */
export function sampleOf(types: Types, type: Type, name: string, depth = 0): unknown {
  if (depth > DEPTH_MAX) return undefined;
  switch (type.kind) {
    case "literal":
      return type.value ?? undefined;
    case "array": {
      const item = sampleOf(types, type.of, name, depth + 1);
      return item === undefined ? [] : [item];
    }
    case "union": {
      const [first] = literalsOf(types, type);
      if (first !== undefined) return first;
      for (const member of type.members) {
        const value = sampleOf(types, member, name, depth + 1);
        if (value !== undefined) return value;
      }
      return undefined;
    }
    case "object":
    case "all":
      return sampleObject(types, type, depth);
    case "name": {
      const found = resolve(types, type);
      return found === undefined
        ? sampleOfName(type.name, name)
        : sampleOf(types, found, name, depth + 1);
    }
    case "other":
      return name === "parameters" || name.endsWith("schema") ? { type: "object" } : undefined;
  }
}

/** The members that an object must have, and those of `more`. */
export function sampleObject(
  types: Types,
  type: Type,
  depth = 0,
  more: readonly string[] = [],
): Record<string, unknown> {
  const members = membersOf(types, type) ?? [];
  return Object.fromEntries(
    members
      .filter((member) => !member.isOptional || more.includes(member.name))
      .map((member) => [member.name, sampleOf(types, member.type, member.name, depth + 1)])
      .filter(([, value]) => value !== undefined),
  ) as Record<string, unknown>;
}

const TEXTS: readonly (readonly [RegExp, string])[] = [
  [/url|uri$/, "https://example.com/a.png"],
  [/^data$|_data$|_content$/, "AAAA"],
  [/^(?:call_id|tool_use_id|tool_call_id)$/, "call_1"],
  [/^(?:arguments|input)$/, "{}"],
  [/^id$/, "id_1"],
  [/^media_type$/, "image/png"],
];

function sampleOfName(type: string, name: string): unknown {
  if (type === "string") return TEXTS.find(([pattern]) => pattern.test(name))?.[1] ?? "text";
  if (type === "number") return 1;
  if (type === "boolean") return true;
  return type === "unknown" || type === "Record" ? {} : undefined;
}
