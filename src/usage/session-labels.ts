// The session, the agent and the batch of a call. They become labels of the usage record: those of sessions come from headers of
// agents or of the caller, that of a batch from the gateway alone.

import { invalid } from "../base/fault.ts";
import { LABELS_HEADER, parseLabels } from "./labels.ts";

const SESSION_LABELS = ["session", "agent", "parent_agent"] as const;
type SessionLabel = (typeof SESSION_LABELS)[number];
/** The names of the labels, which are also names of filters and groupings. */
export const NAMED_LABELS = [...SESSION_LABELS, "batch"] as const;
export type NamedLabel = (typeof NAMED_LABELS)[number];

export const SESSION_HEADERS: Readonly<Record<SessionLabel, string>> = {
  session: "x-postern-session",
  agent: "x-postern-agent",
  parent_agent: "x-postern-parent-agent",
};

/** What agents send themselves: Claude Code, then Codex, whose threads are its agents. The first that is valid counts. */
const CLIENT_HEADERS: Readonly<Record<SessionLabel, readonly string[]>> = {
  session: ["x-claude-code-session-id", "session-id", "session_id", "conversation_id"],
  agent: ["x-claude-code-agent-id", "thread-id"],
  parent_agent: ["x-claude-code-parent-agent-id", "x-codex-parent-thread-id"],
};

export const SESSION_ID_LENGTH_MAX = 64;
export const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,63}$/;

export interface CallLabels {
  /** `name=value`, sorted by name. */
  readonly labels: readonly string[];
  /** Undefined for a call without a session. */
  readonly sessionId: string | undefined;
}

/** Throws for invalid headers of this gateway. Those of agents are ignored if they are invalid. */
export function readCallLabels(headers: Headers): CallLabels {
  const own = parseLabels(headers.get(LABELS_HEADER));
  if (labelValue(own, "batch") !== undefined) throw batchLabelFault();
  const ids = new Map<SessionLabel, string>();
  for (const name of SESSION_LABELS) {
    const id = explicitId(name, own, headers) ?? clientId(name, headers);
    if (id !== undefined) ids.set(name, id);
  }
  if (ids.size === 0) return { labels: own, sessionId: undefined };
  const sessionId = ids.get("session");
  // Codex names the session itself as the main agent.
  for (const name of ["agent", "parent_agent"] as const)
    if (ids.get(name) === sessionId) ids.delete(name);
  const others = own.filter((label) => namedLabelOf(label) === undefined);
  return { labels: [...others, ...Array.from(ids, toLabel)].sort(), sessionId };
}

function explicitId(
  name: SessionLabel,
  labels: readonly string[],
  headers: Headers,
): string | undefined {
  const header = SESSION_HEADERS[name];
  const prefix = `${name}=`;
  const labeled = labels.find((label) => label.startsWith(prefix))?.slice(prefix.length);
  const sent = headers.get(header)?.trim();
  const id = sent === undefined || sent === "" ? labeled : sent;
  if (id === undefined || (SESSION_ID.test(id) && (labeled === undefined || labeled === id)))
    return id;
  throw invalid(
    header,
    labeled === undefined || labeled === id
      ? `The header \`${sent === id ? header : LABELS_HEADER}\` has an invalid id of the ${name.replace("_", " ")}. Send up to ${SESSION_ID_LENGTH_MAX} letters, digits and \`_.:@+-\`, beginning with a letter or digit.`
      : `The headers \`${header}\` and \`${LABELS_HEADER}\` name different ids. Send one of them.`,
  );
}

function clientId(name: SessionLabel, headers: Headers): string | undefined {
  for (const header of CLIENT_HEADERS[name]) {
    const id = headers.get(header)?.trim();
    if (id !== undefined && SESSION_ID.test(id)) return id;
  }
  return undefined;
}

function toLabel([name, id]: readonly [SessionLabel, string]): string {
  return `${name}=${id}`;
}

/** The labels of a request of a batch. */
export function withBatchLabel(labels: readonly string[], batchId: string): readonly string[] {
  return [...labels, `batch=${batchId}`].sort();
}

function batchLabelFault(): Error {
  return invalid(
    LABELS_HEADER,
    `The header \`${LABELS_HEADER}\` has the label \`batch\`, which only the gateway sets, for the requests of POST /v1/batches. Use another name.`,
  );
}

/** Undefined for a label that the caller chose. */
export function namedLabelOf(label: string): NamedLabel | undefined {
  return NAMED_LABELS.find((name) => label.startsWith(`${name}=`));
}

/** The value of a label of a record; undefined if it has none. */
export function labelValue(labels: readonly string[], name: NamedLabel): string | undefined {
  const prefix = `${name}=`;
  return labels.find((label) => label.startsWith(prefix))?.slice(prefix.length);
}
