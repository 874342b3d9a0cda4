// The scalar fields of a request on one wire as a table: the reader, the writer, the names of known fields, the names for errors
// and the losses all come from it.

import {
  addFieldLoss,
  addToleratedLoss,
  fieldPath,
  type Loss,
} from "./canonical/canonical-losses.ts";
import type {
  CanonicalRequest,
  Effort,
  FieldNames,
  RequestField,
} from "./canonical/canonical-request.ts";
import type { Target } from "./canonical/wire-interfaces.ts";
import { invalid } from "./invalid-request.ts";
import {
  type JsonObject,
  lookUp,
  mustBeArray,
  mustBeName,
  oneOf,
  optionalBoolean,
  optionalInteger,
  optionalNumber,
  optionalObject,
} from "./json-fields.ts";

type ReadField<T> = (value: unknown, path: string) => T;

export interface WriteContext {
  readonly request: CanonicalRequest;
  readonly target: Target;
  readonly losses: Loss[];
  /** The effort that is sent. */
  readonly effort?: Effort | undefined;
  /** The model will reason. */
  readonly thinks?: boolean;
}

/** What is sent for a value that the caller set; undefined, and a loss, if the provider does not take it. */
export type WriteField<T> = (value: T, context: WriteContext, field: RequestField) => unknown;

export interface ScalarField {
  readonly field: RequestField;
  /** The name in the API, or `object.name`. Absent: the API has no such field. */
  readonly name?: string;
  readonly path?: readonly [name: string, member?: string];
  /** Absent for what the wire writes, but does not read. */
  readonly read?: ReadField<unknown>;
  write(value: unknown, context: WriteContext, field: RequestField): unknown;
}

type ValueOf<F extends RequestField> = NonNullable<CanonicalRequest[F]>;

/** A field that callers of this API send. The reader must give what the canonical form has in it. */
export function scalar<F extends RequestField>(
  field: F,
  name: string,
  read: ReadField<CanonicalRequest[F]>,
  write: WriteField<ValueOf<F>> = asIs,
): ScalarField {
  return { ...written(field, name, write), read };
}

/** A field that is only written. */
export function written<F extends RequestField>(
  field: F,
  name: string,
  write: WriteField<ValueOf<F>> = asIs,
): ScalarField {
  const [parent = name, member] = name.split(".");
  return { field, name, path: member === undefined ? [parent] : [parent, member], write };
}

/** A field that the API does not have. */
export function missing<F extends RequestField>(
  field: F,
  write: WriteField<ValueOf<F>> = lost(),
): ScalarField {
  return { field, write };
}

// ---- How values are written.

function asIs(value: unknown): unknown {
  return value;
}

/** By the writer's own code, because it depends on other fields. */
export function byRule(): undefined {
  return undefined;
}

/** A loss, unless the value has no effect. */
export function lost(
  reason = "This provider's API has no equivalent.",
  harmless?: unknown,
): WriteField<unknown> {
  return (value, { request, losses }, field) => {
    if (value !== harmless) addFieldLoss(losses, request, field, reason);
    return undefined;
  };
}

/** Dropped without the caller's permission, because it does not change the reply. */
export function tolerated(reason: string): WriteField<unknown> {
  return (_value, { request, losses }, field) =>
    addToleratedLoss(losses, fieldPath(request, field), reason);
}

/** Sent to providers that take OpenAI's own fields. */
export function ifOpenai<T>(otherwise: WriteField<T>): WriteField<T> {
  return (value, context, field) =>
    takesOpenaiFields(context) ? value : otherwise(value, context, field);
}

/** Sent to the others. */
export function unlessOpenai<T>(otherwise: WriteField<T>): WriteField<T> {
  return (value, context, field) =>
    takesOpenaiFields(context) ? otherwise(value, context, field) : value;
}

/** Not sent to providers that answer 4xx to a field that they do not have. */
export function ifIgnored<T>(): WriteField<T> {
  const otherwise = lost("This provider rejects this parameter.");
  return (value, context, field) =>
    context.target.abilities?.rejectsUnknownFields === true
      ? otherwise(value, context, field)
      : value;
}

function takesOpenaiFields({ target: { abilities } }: WriteContext): boolean {
  return abilities?.openaiFields !== false;
}

/** The provider's names of the service tiers that it has. */
export function tierOf(tiers: Readonly<Record<string, unknown>>): WriteField<string> {
  return (tier, { request, losses }, field) => {
    if (!Object.hasOwn(tiers, tier)) {
      const reason = `This provider does not support the service tier ${tier}.`;
      addFieldLoss(losses, request, field, reason);
    }
    return lookUp(tiers, tier);
  };
}

export function firstStops(max: number): WriteField<readonly string[]> {
  return (stops, { request, losses }) => {
    if (stops.length > max)
      addFieldLoss(losses, request, "stop", `This provider accepts at most ${max} stop sequences.`);
    return stops.slice(0, max);
  };
}

// ---- How values are read.

export function flag(value: unknown, path: string): boolean | undefined {
  return optionalBoolean(value, path);
}

export function numberFrom(min: number, max: number): ReadField<number | undefined> {
  return (value, path) => optionalNumber(value, path, min, max);
}

export function integerFrom(min: number, max: number): ReadField<number | undefined> {
  return (value, path) => optionalInteger(value, path, min, max);
}

export function choiceOf<const T extends string>(allowed: readonly T[]): ReadField<T | undefined> {
  return (value, path) => (value === null ? undefined : oneOf(value, path, allowed));
}

export const TOKENS_MAX = 100_000_000;
const STOPS_MAX = 64;

export function stopList(value: unknown, path: string): readonly string[] | undefined {
  if (value === null) return undefined;
  const list = mustBeArray(value, path);
  if (list.length > STOPS_MAX)
    throw invalid(path, `\`${path}\` can have at most ${STOPS_MAX} sequences.`);
  return list.length === 0 ? undefined : list.map((one, at) => mustBeName(one, `${path}[${at}]`));
}

// ---- What derives from a table.

/** Reads the fields that are set. The last row of a field takes precedence. */
export function readScalars(
  table: readonly ScalarField[],
  body: JsonObject,
): Partial<CanonicalRequest> {
  const fields: Record<string, unknown> = {};
  for (const { field, name = field, path, read } of table) {
    if (read === undefined || path === undefined) continue;
    const [parent, member] = path;
    const value =
      member === undefined ? body[name] : optionalObject(body[parent], parent)?.[member];
    if (value === undefined) continue;
    const found = read(value, name);
    if (found !== undefined) fields[field] = found;
  }
  return fields; // Safe because `scalar` ties each reader to the type of its field.
}

/** Writes the fields that are set, those with a path of two names within an object. */
export function writeScalars(table: readonly ScalarField[], context: WriteContext): JsonObject {
  const fields: Record<string, unknown> = {};
  const parents: Record<string, Record<string, unknown>> = {};
  for (const row of table) {
    const value = context.request[row.field];
    if (value === undefined) continue;
    const sent = row.write(value, context, row.field);
    if (sent === undefined || row.path === undefined) continue;
    const [name, member] = row.path;
    if (member === undefined) fields[name] = sent;
    else fields[name] = Object.assign((parents[name] ??= {}), { [member]: sent });
  }
  return fields;
}

/** The names of the API that differ from the canonical ones, for errors. */
export function scalarNames(table: readonly ScalarField[]): FieldNames {
  const read = table.filter((row) => row.read !== undefined);
  return Object.fromEntries(read.map(({ field, name }) => [field, name]));
}

/** The fields that the wire reads: those of the table, and others that are not scalars. */
export function knownFields(table: readonly ScalarField[], others: string): ReadonlySet<string> {
  const read = table.filter((row) => row.read !== undefined);
  return new Set([...read.flatMap(({ path }) => path?.[0] ?? []), ...others.split(" ")]);
}

/** The same for the fields of one object. */
export function knownMembers(
  table: readonly ScalarField[],
  parent: string,
  others = "",
): ReadonlySet<string> {
  const members = table.flatMap(({ path, read }) =>
    read !== undefined && path?.[0] === parent && path[1] !== undefined ? [path[1]] : [],
  );
  return new Set([...members, ...others.split(" ")]);
}

/** The API's names of a field, the last of which takes precedence. */
export function namesOf(table: readonly ScalarField[], field: RequestField): readonly string[] {
  return table.flatMap((row) =>
    row.field === field && row.read !== undefined && row.name !== undefined ? [row.name] : [],
  );
}
