// Text and URLs of the claim pages.

import { CLAIM_PATH } from "./claim-link.ts";

/** Opens a claim for the person whom its agent named. */
export function waitingClaimPath({ id }: { readonly id: string }): string {
  return `${CLAIM_PATH}?attempt=${id}`;
}

/** A coarse network for display. */
export function describeNetwork(network: string): string {
  if (/^127\.|^0:0:0::/.test(network)) return "this computer";
  return network.startsWith("unknown") ? "an unknown network" : `the network ${network}`;
}

/** `123 456`: easier to read aloud and to compare. */
export function formatUserCode(userCode: string): string {
  return `${userCode.slice(0, 3)} ${userCode.slice(3)}`;
}

/** What the agent set up besides keys; it stays active after the claim. */
export function describeSetup({
  webhookHosts,
  sinkHosts,
  ownProviders,
}: {
  readonly webhookHosts: readonly string[];
  readonly sinkHosts: readonly string[];
  readonly ownProviders: readonly string[];
}): readonly string[] {
  const hosts = webhookHosts.length === 0 ? [] : [webhookHosts.join(", ")];
  const sinks = sinkHosts.length === 0 ? [] : [sinkHosts.join(", ")];
  const providers = ownProviders.length === 0 ? [] : [ownProviders.join(", ")];
  return [
    ...hosts.map((names) => `Webhooks send events and member changes to ${names}`),
    ...sinks.map((names) => `Sinks send the usage of all calls to ${names}`),
    ...providers.map(
      (names) => `Calls to ${names} use a provider key that the agent added, not the balance`,
    ),
  ];
}
