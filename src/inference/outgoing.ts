// The caller's own bytes with only what must change: the model's name, the request for usage, a pseudonym for the end
// user, nothing stored in the gateway's account, the output limit where the balance lowered it, and without the members
// that are the gateway's own.

import type { Ask } from "./ask.ts";
import type { Candidate } from "./candidates.ts";
import { isObject } from "./ask.ts";
import { withMembers } from "./json-edit.ts";
import { OWN_MEMBERS } from "./routing-preferences.ts";

export interface Adjustments {
  /** Stands for the account at the provider, and says nothing about it. */
  readonly pseudonym: () => string;
  /** The output limit that the balance affords, where it had to be lowered. */
  readonly outputMax: number | undefined;
}

export function outgoingBody(
  ask: Ask,
  { upstreamName, credential }: Candidate,
  adjust: Adjustments,
): string {
  const { provider, byok } = credential;
  const changes: Record<string, string | undefined> = {};
  if (ask.api !== "embeddings")
    for (const own of OWN_MEMBERS) if (own in ask.json) changes[own] = undefined;
  if (ask.api === "messages" && provider.messagesVersion !== undefined)
    Object.assign(changes, namedInPath(provider.messagesVersion));
  else if (ask.json["model"] !== upstreamName) changes["model"] = JSON.stringify(upstreamName);
  if (ask.api === "chat" && ask.stream && provider.asksForUsage && !ask.wantsUsage) {
    const options = ask.json["stream_options"];
    changes["stream_options"] = JSON.stringify({
      ...(isObject(options) ? options : {}),
      include_usage: true,
    });
  }
  if (adjust.outputMax !== undefined)
    changes[limitField(ask, provider.outputLimitField)] = String(adjust.outputMax);
  if (!byok) {
    if (
      provider.storesReplies &&
      (ask.api === "responses" || ask.json["store"] === true) &&
      ask.json["store"] !== false
    )
      changes["store"] = "false";
    Object.assign(changes, pseudonymField(ask, provider.endUserField, adjust.pseudonym));
  }
  return Object.keys(changes).length === 0 ? ask.text : withMembers(ask.text, ask.spans, changes);
}

/** What changes in a body of the messages wire where the path names the model. */
export function namedInPath(version: string): Readonly<Record<string, string | undefined>> {
  return { model: undefined, anthropic_version: JSON.stringify(version) };
}

function limitField(ask: Ask, chatField: string): string {
  if (ask.api === "responses") return "max_output_tokens";
  return ask.api === "chat" ? chatField : "max_tokens";
}

function pseudonymField(
  ask: Ask,
  field: string | null,
  pseudonym: () => string,
): Record<string, string> {
  if (field === null || ask.api === "embeddings") return {};
  if (field === "metadata.user_id") {
    const metadata = ask.json["metadata"];
    if (isObject(metadata) && metadata["user_id"] !== undefined) return {};
    return {
      metadata: JSON.stringify({ ...(isObject(metadata) ? metadata : {}), user_id: pseudonym() }),
    };
  }
  const set = ask.json["user"] !== undefined || ask.json["safety_identifier"] !== undefined;
  return set ? {} : { [field]: JSON.stringify(pseudonym()) };
}
