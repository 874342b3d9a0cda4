// A form of a page carries a name that no other has, and what it asks for is done once under that name: two clicks, or a
// page that is loaded again, get the first answer.

import { Fault } from "../base/fault.ts";
import { randomBase62 } from "../base/secret.ts";
import type { Tx } from "../store/db.ts";
import type { Idempotency } from "./idempotency.ts";

const TOKEN_CHARACTERS = 22;

export const FORM_TOKEN = new RegExp(`^[0-9A-Za-z]{${TOKEN_CHARACTERS}}$`);

/** A name for a form that is just being shown. */
export function newFormToken(): string {
  return randomBase62(TOKEN_CHARACTERS);
}

export interface FormSubmission {
  /** Who sends it, to which page. */
  readonly scope: string;
  readonly token: string;
  /** All that it asks for: the same form with another wish is refused. */
  readonly payload: unknown;
  readonly now: number;
}

/** Does what a form asks for once. A repetition is answered as the first time. */
export async function submitOnce(
  tx: Tx,
  idempotency: Idempotency,
  { scope, token, payload, now }: FormSubmission,
  work: () => Promise<string>,
): Promise<string> {
  const call = { scope, key: token, body: JSON.stringify(payload), now };
  const stored = await idempotency.begin(tx, call).catch(rethrowForForm);
  if (stored !== undefined) return stored.body;
  const responseBody = await work();
  await idempotency.finish(tx, call, { status: 200, body: responseBody });
  return responseBody;
}

function rethrowForForm(error: unknown): never {
  if (!(error instanceof Fault) || error.code !== "conflict") throw error;
  const message =
    "This form was sent before, and asked for something else. Nothing was changed this time: look at how things stand, and use the form on the page as it is now.";
  throw new Fault("conflict", "a form was sent again with another wish", { message });
}
