// The list of models as Codex asks for it, with `client_version` in the query: efforts, context window and tools of each. The
// fields are those that Codex 0.171 requires.

import type { z } from "zod";
import type { Model } from "./catalog.ts";
import { abilitiesOf } from "./model-abilities.ts";
import type { CodexModelList } from "./model-record.ts";

/** Codex takes these instead of its own instructions for unknown models, which it does not use with a listed model. */
const INSTRUCTIONS = `You are a coding agent in the Codex CLI, in a terminal. You and the user share a workspace.

- Work until the task is done. Read the code before you change it, and follow the style that it has.
- Obey the AGENTS.md files of the workspace. Instructions of the user come first.
- Use the shell to search, read and edit files; prefer \`rg\`. Make small changes that solve the cause, and no unrelated ones.
- Check your work with the tests or commands of the project if there are any. Do not commit unless the user asks.
- Never undo changes that are not yours, and run no destructive command that the user did not ask for.
- Tell the user briefly what you do before longer work. At the end, say what you changed, how you checked it, and what is left.`;

const LEVEL_DESCRIPTIONS: Readonly<Record<string, string>> = {
  none: "Does not think",
  minimal: "Thinks as little as it can",
  low: "Thinks little",
  medium: "Thinks as much as most tasks need",
  high: "Thinks more, for hard tasks",
  xhigh: "Thinks much more",
  max: "Thinks as much as it can",
};
/** For models whose efforts are not listed: the gateway translates these. */
const COMMON_EFFORTS = ["low", "medium", "high"] as const;
/** What Codex keeps of the output of a tool. */
const TOOL_OUTPUT_TOKENS = 10_000;

/** Codex knows OpenAI's models itself, with more than a list can say. */
export function codexModels(models: readonly Model[]): z.infer<typeof CodexModelList>["models"] {
  return models
    .filter(
      ({ kind, provider, supported }) =>
        kind === "chat" && provider !== "openai" && supported.includes("tools"),
    )
    .map((model, index) => codexModel(model, index));
}

function codexModel(model: Model, index: number): z.infer<typeof CodexModelList>["models"][number] {
  const { id, title, supported, inputModalities, contextLength } = model;
  const { reasoning, efforts } = abilitiesOf(model);
  const reasons = supported.includes("reasoning") && reasoning !== "none";
  const levels = reasons ? (efforts ?? COMMON_EFFORTS) : [];
  return {
    slug: id,
    display_name: title,
    description: `${title} by ${model.provider}`,
    default_reasoning_level:
      ["medium", "high"].find((one) => levels.some((level) => level === one)) ??
      levels.at(-1) ??
      null,
    supported_reasoning_levels: levels.map((effort) => ({
      effort,
      description: LEVEL_DESCRIPTIONS[effort] ?? effort,
    })),
    supports_reasoning_summaries: reasons,
    shell_type: "shell_command",
    visibility: "list",
    supported_in_api: true,
    priority: index,
    support_verbosity: false,
    default_verbosity: null,
    apply_patch_tool_type: null,
    truncation_policy: { mode: "tokens", limit: TOOL_OUTPUT_TOKENS },
    supports_parallel_tool_calls: supported.includes("parallel_tools"),
    context_window: contextLength,
    experimental_supported_tools: [],
    input_modalities: inputModalities.filter((one) => one === "text" || one === "image"),
    availability_nux: null,
    upgrade: null,
    base_instructions: INSTRUCTIONS,
  };
}
