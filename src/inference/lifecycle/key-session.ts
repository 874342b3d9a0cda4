// The session of a call by a key that is bound to one, or that limits what each of its sessions spends.

import { Fault } from "../../base/fault.ts";
import { SESSION_HEADERS } from "../../usage/session-labels.ts";
import type { CallInput } from "./call.ts";

const LABEL = "session=";

/**
 * A bound key has one session, whatever its clients name. Under a limit of each session, calls without one share the session
 * that has the id of the key: else leaving out a header would lift the limit.
 */
export function withKeySession(input: CallInput): CallInput {
  const { caller, headers, labels, session } = input;
  const { session: bound, sessionLimitUsd } = caller.policy ?? {};
  if (bound === undefined && (sessionLimitUsd === undefined || session !== undefined)) return input;
  const id = bound ?? caller.keyId;
  const named = headers.get(SESSION_HEADERS.session)?.trim() || undefined;
  if (bound !== undefined && named !== undefined && named !== bound)
    throw new Fault("forbidden", "key policy: session", {
      message: `This key may only make calls of the session \`${bound}\`. Leave the header \`${SESSION_HEADERS.session}\` out.`,
      param: SESSION_HEADERS.session,
      fields: { policy: "session" },
    });
  const others = labels.filter((label) => !label.startsWith(LABEL));
  return {
    ...input,
    session: { id, limit: session?.limit },
    labels: [...others, `${LABEL}${id}`].sort(),
  };
}
