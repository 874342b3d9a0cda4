// Compares what the newest SDKs can send and receive with an older state, and asks the gateway about what is new.

import path from "node:path";
import { parse } from "yaml";
import type { Harness, Json } from "../translation/support/harness.ts";
import { type Answer, askDescription, askOtherWire, askOwnWire, askReader } from "./ask-gateway.ts";
import { reasonFor } from "./known-refusals.ts";
import { type ReceivedEvent, readSurface, type SentShape, type Surface } from "./surface.ts";

export interface Finding {
  readonly kind: "field" | "event" | "endpoint" | "string";
  readonly name: string;
  readonly own: Answer;
  /** Translated to another API. */
  readonly other?: Answer;
  /** Why a refusal is right. */
  readonly reason?: string;
}

const EMPTY: Surface = { sent: [], events: [], endpoints: [] };

/** What `newest` has beyond `installed`; all of it without `installed`. */
export async function findDrift(
  harness: Harness,
  packageName: string,
  folders: { readonly newest: string; readonly installed?: string },
): Promise<readonly Finding[]> {
  const { newest, installed } = folders;
  const old = installed === undefined ? EMPTY : readSurface(packageName, installed);
  const current = readSurface(packageName, newest);
  const findings: Finding[] = [];
  const known = new Set(old.sent.map(keyOf));
  for (const shape of current.sent.filter((one) => !known.has(keyOf(one))))
    findings.push(await askAbout(harness, shape));
  const knownEvents = new Set(old.events.map(({ api, type }) => `${api} ${type}`));
  for (const event of current.events)
    if (!knownEvents.has(`${event.api} ${event.type}`)) findings.push(askAboutEvent(event));
  const knownPaths = new Set(old.endpoints.map(({ method, path: one }) => `${method} ${one}`));
  const paths = await publishedPaths(harness);
  for (const endpoint of current.endpoints) {
    const name = `${endpoint.method} ${endpoint.path}`;
    if (!knownPaths.has(name))
      findings.push({ kind: "endpoint", name, own: askDescription(paths, endpoint) });
  }
  return findings;
}

function keyOf({ api, name }: SentShape): string {
  return `${api} ${name}`;
}

async function askAbout(harness: Harness, shape: SentShape): Promise<Finding> {
  const own = await askOwnWire(harness, shape);
  const name = keyOf(shape);
  const reason = own.verdict === "refuse" ? reasonFor(name) : undefined;
  return {
    kind: "field",
    name,
    own,
    other: await askOtherWire(harness, shape),
    ...(reason !== undefined && { reason }),
  };
}

/** An event of an API that the gateway serves is passed to a caller of that API as it is. */
function askAboutEvent(event: ReceivedEvent): Finding {
  const read = askReader(event);
  const name = `${event.api} ${event.type}`;
  return { kind: "event", name, own: { verdict: "pass" }, other: read };
}

async function publishedPaths({ gateway }: Harness): Promise<Json> {
  const text = await (await fetch(`${gateway.url}/openapi.yaml`)).text();
  // The gateway's own document.
  return (parse(text) as { readonly paths: Json }).paths;
}

/** A refusal of what the newest client sends to its own API, without a reason. */
export function isFailure({ own, reason }: Finding): boolean {
  return own.verdict === "refuse" && reason === undefined;
}

export function formatFinding(finding: Finding): string {
  const { kind, name, own, other, reason } = finding;
  const translated = other === undefined ? "" : `, translated: ${other.verdict}`;
  const message = own.message ?? other?.message;
  const why = reason ?? message;
  return `${isFailure(finding) ? "FAIL " : "     "}${kind.padEnd(9)}${name}: ${own.verdict}${translated}${why === undefined ? "" : ` (${why})`}`;
}

export const INSTALLED = path.join(import.meta.dir, "../../node_modules");
