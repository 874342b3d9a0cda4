// What all commands that change an account have in common: a reason, a name against repetition, and who it was.

import { newId } from "../base/id.ts";
import { type Act, COMMAND_LINE, readReason } from "../operator/operator.ts";
import type { Line, World } from "./command.ts";

export const REASON = {
  type: "string",
  value: "<text>",
  means: "Kept with the change, where the account's owner can read it.",
  required: true,
} as const;

export const ID = {
  type: "string",
  value: "<id>",
  means: "Makes a repetition harmless; any text.",
} as const;

export const JSON_FLAG = { type: "boolean", means: "Prints JSON, for programs." } as const;

/** Throws where the reason says nothing. */
export function actOf(line: Line, world: World): Omit<Act, "accountId"> {
  const reason = readReason(line.text("reason") ?? "");
  return { by: COMMAND_LINE, reason, network: null, now: world.now() };
}

export function idOf(line: Line, world: World): string {
  return line.text("id") ?? newId("req", world.now());
}
