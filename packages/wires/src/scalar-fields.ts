// The scalar fields of a request on one wire as a table: the reader, the writer, the names of known fields, the names for errors
// and the losses all come from it.

import { addFieldLoss, type Loss } from "./canonical/canonical-losses.ts";
import type { CanonicalRequest, FieldNames, RequestField } from "./canonical/canonical-request.ts";
import type { Target } from "./canonical/wire-interfaces.ts";
import {
  type JsonObject,
  oneOf,
  optionalBoolean,
  optionalInteger,
  optionalNumber,
} from "./json-fields.ts";

type ReadField<T> = (value: unknown, path: string) => T;

/**
 * `always`: as it is. `openai`: only to providers that accept OpenAI's own fields; elsewhere it is a loss, unless it is false.
 * `by_rule`: by the writer's own code, because it depends on the model or on other fields.
 */
type WriteRule = "always" | "openai" | "by_rule";

export interface ScalarField {
  readonly field: RequestField;
  /** The name in the API. */
  readonly name: string;
  readonly read: ReadField<unknown>;
  readonly write: WriteRule;
}

/** A row of the table. The reader must give what the canonical form has in this field. */
export function scalar<F extends RequestField>(
  field: F,
  name: string,
  read: ReadField<CanonicalRequest[F]>,
  write: WriteRule = "always",
): ScalarField {
  return { field, name, read, write };
}

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

/** Reads the fields that are set. */
export function readScalars(
  table: readonly ScalarField[],
  body: JsonObject,
): Partial<CanonicalRequest> {
  const fields: Record<string, unknown> = {};
  for (const { field, name, read } of table) {
    const value = body[name];
    if (value !== undefined) fields[field] = read(value, name);
  }
  return fields; // Safe because `scalar` ties each reader to the type of its field.
}

/** Writes the fields that are set, except for those that have rules of their own. */
export function writeScalars(
  table: readonly ScalarField[],
  request: CanonicalRequest,
  { abilities }: Target,
  losses: Loss[],
): JsonObject {
  const fields: Record<string, unknown> = {};
  for (const { field, name, write } of table) {
    const value = request[field];
    if (value === undefined || write === "by_rule") continue;
    if (write === "always" || abilities?.openaiFields !== false) fields[name] = value;
    else if (value !== false)
      addFieldLoss(losses, request, field, "This provider does not support this parameter.");
  }
  return fields;
}

/** The names of the API that differ from the canonical ones, for errors. */
export function scalarNames(table: readonly ScalarField[]): FieldNames {
  return Object.fromEntries(
    table.filter(({ field, name }) => field !== name).map(({ field, name }) => [field, name]),
  );
}

/** The fields that the wire reads: those of the table, and others that are not scalars. */
export function knownFields(table: readonly ScalarField[], others: string): ReadonlySet<string> {
  return new Set([...table.map(({ name }) => name), ...others.split(" ")]);
}
