// A misspelled setting would otherwise be ignored.

import { closestName } from "../base/text/suggest.ts";

/** Clients keep their API key in it, perhaps in the shell that also starts the gateway. */
const CLIENT_KEY_VARIABLE = "POSTERN_API_KEY";

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
        !name.startsWith("POSTERN_TEST_"),
    )
    .map((name) => {
      const meant = closestName(name, settings);
      const hint = meant === undefined ? ";" : `; did you mean ${meant}?`;
      return `${name} is not a setting${hint} see docs/site/settings.md`;
    });
}
