// Text of the claim pages.

/** A coarse network in words. */
export function describeNetwork(network: string): string {
  if (/^127\.|^0:0:0::/.test(network)) return "this computer";
  return network.startsWith("unknown") ? "an unknown network" : `the network ${network}`;
}

/** `123456` as it is read aloud and compared: in two halves. */
export function formatUserCode(userCode: string): string {
  return `${userCode.slice(0, 3)} ${userCode.slice(3)}`;
}

/** What the agent set up beside keys, and goes on after the claim. */
export function describeSetup({
  webhookHosts,
  ownProviders,
}: {
  readonly webhookHosts: readonly string[];
  readonly ownProviders: readonly string[];
}): readonly string[] {
  const hosts = webhookHosts.length === 0 ? [] : [webhookHosts.join(", ")];
  const providers = ownProviders.length === 0 ? [] : [ownProviders.join(", ")];
  return [
    ...hosts.map((names) => `Webhooks tell ${names} what happens in it, and who belongs to it`),
    ...providers.map(
      (names) => `Calls at ${names} go on a provider key that came with it, not on its balance`,
    ),
  ];
}
