// Words that this project no longer uses, each with the usual term: an earlier vocabulary of metaphors that a newcomer
// could not read. Only words without a technical meaning of their own here are listed.

export const RETIRED_WORDS: Readonly<Record<string, string>> = {
  house: "server, gateway, operator",
  room: "module, folder; remaining",
  rooms: "modules, folders",
  door: "endpoint, entry point",
  till: "billing",
  cashier: "billing",
  postman: "delivery worker",
  mailroom: "webhooks",
  reception: "sign-in, claims",
  tongue: "API, wire",
  lane: "queue per key",
  lanes: "queues per key",
  mould: "template",
  dearest: "maximum cost",
  riddle: "unclear error",
  mend: "fix",
  mends: "fixes",
  mended: "fixed",
  whoever: "the caller, the component",
  nobody: "no component, no caller; not",
  somebody: "the caller, a person",
};
