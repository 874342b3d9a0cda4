// A misspelled setting would otherwise be ignored.

import { closestName } from "../base/text/suggest.ts";

/** Clients keep their API key in it, perhaps in the shell that also starts the gateway. */
const CLIENT_KEY_VARIABLE = "POSTERN_API_KEY";

/** Kubernetes sets these in every pod of a namespace with a Service named `postern`. */
const SERVICE_LINK =
  /^POSTERN_(?:SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)|PORT_\d+_(?:TCP|UDP)(?:_[A-Z]+)?)$/;
const SERVICE_LINK_PORT = /^(?:tcp|udp):\/\//;

/** Without the address of a Service, which has the name of the setting for the port. */
export function withoutServiceLink(
  variables: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string | undefined>> {
  const { POSTERN_PORT: port, ...others } = variables;
  return port !== undefined && SERVICE_LINK_PORT.test(port) ? others : variables;
}

export function unknownVariableErrors(
  variables: Readonly<Record<string, unknown>>,
  settings: readonly string[],
): readonly string[] {
  return Object.keys(variables)
    .filter(
      (name) =>
        name.startsWith("POSTERN_") &&
        !settings.includes(name) &&
        name !== CLIENT_KEY_VARIABLE &&
        !SERVICE_LINK.test(name) &&
        !name.startsWith("POSTERN_TEST_"),
    )
    .map((name) => {
      const meant = closestName(name, settings);
      const hint = meant === undefined ? ";" : `; did you mean ${meant}?`;
      return `${name} is not a setting${hint} see docs/site/settings.md`;
    });
}
