// The faults for what must not run on the gateway's own provider accounts.

import { Fault, type NextStep } from "../../base/fault.ts";

export interface SharedAccountUse {
  readonly path: string;
  readonly alternative: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}

const OWN_KEY_HINT = "or add your own provider key with POST /v1/provider-keys";
const ADD_PROVIDER_KEY_STEP: NextStep = {
  method: "POST",
  url: "/v1/provider-keys",
  body: { provider: "openai", api_key: "<your key>" },
  why: "Use your own account at the provider.",
};

/** The alternative to a file in the provider account or in the operator's network. */
export const SEND_SOURCE =
  "Send its content as base64, or as an `https:` URL of a public web server";

export function storedReferenceFault({ path, alternative, fields = {} }: SharedAccountUse): Fault {
  const orPrivate = alternative === SEND_SOURCE ? ", or in a private network" : "";
  return new Fault("invalid_request", `reference at ${path}`, {
    message: `\`${path}\` refers to an object in the provider account that all users of this gateway share${orPrivate}. ${alternative}, ${OWN_KEY_HINT}.`,
    param: path,
    next: [ADD_PROVIDER_KEY_STEP],
    fields,
  });
}

/** For a field that only the translated request has: the caller does not know its name. */
export function translatedReferenceFault({ path, alternative }: SharedAccountUse): Fault {
  return new Fault("invalid_request", `reference at ${path} of the translation`, {
    message: `After translation for this model's provider, \`${path}\` refers to an object in the provider account that all users of this gateway share. ${alternative}, ${OWN_KEY_HINT}.`,
    next: [ADD_PROVIDER_KEY_STEP],
  });
}

/** If the field is a `type`, the gateway does not know its value. */
export function unknownFieldFault(path: string, provider: string): Fault {
  const what = /(?:^|\.)type$/.test(path) ? "value of" : "field";
  return new Fault("invalid_request", `unknown field ${path} at ${provider}`, {
    message: `This gateway does not know the ${what} \`${path}\`, and its text could name something stored in the account at ${provider} that all users of this gateway share. Remove it, ${OWN_KEY_HINT}.`,
    param: path,
    isUnknownField: true,
    next: [ADD_PROVIDER_KEY_STEP],
  });
}

export function unknownToolFault(path: string, name: string, provider: string): Fault {
  return new Fault("invalid_request", `unknown tool ${name} at ${provider}`, {
    message: `The price of the tool \`${name}\` at \`${path}\` is not known for ${provider}, so this gateway cannot bill it. Remove it, use another model, ${OWN_KEY_HINT}.`,
    param: path,
    next: [ADD_PROVIDER_KEY_STEP],
  });
}

export function unboundedCostFault({ path, alternative }: SharedAccountUse): Fault {
  return new Fault("invalid_request", `unbounded use at ${path}`, {
    message: `The cost of \`${path}\` is known only to the provider, so this gateway cannot bill it. ${alternative}, ${OWN_KEY_HINT}.`,
    param: path,
    next: [ADD_PROVIDER_KEY_STEP],
  });
}
