// The agents of a session as a tree, in the order in which the page lists them.

import type { Nano } from "../../base/money/money.ts";
import type { AgentUsage } from "../../usage/session-usage.ts";

export interface TreeAgent {
  readonly usage: AgentUsage;
  /** 0 for the main agent, and for agents whose parent is not known. */
  readonly depth: number;
  /** Its cost with that of the agents below it. */
  readonly total: Nano;
}

/** Depth first; of the children of an agent, the one that cost most with its own comes first. */
export function agentTree(agents: readonly AgentUsage[]): readonly TreeAgent[] {
  const known = new Set(agents.map(({ agent }) => agent));
  const childrenOf = Map.groupBy(agents, (usage) => parentOf(usage, known));
  const seen = new Set<string>();
  const visit = (usage: AgentUsage, depth: number): readonly TreeAgent[] => {
    // Agents that name each other as their parent.
    if (seen.has(usage.agent)) return [];
    seen.add(usage.agent);
    const children = childrenOf.get(usage.agent) ?? [];
    const below = inOrder(children.map((child) => visit(child, depth + 1)));
    const direct = below.filter((one) => one.depth === depth + 1);
    const total = direct.reduce((sum, child) => sum + child.total, usage.cost);
    return [{ usage, depth, total }, ...below];
  };
  const roots = (childrenOf.get(undefined) ?? []).map((usage) => visit(usage, 0));
  // What is left is only reached through a circle.
  const others = agents.map((usage) => visit(usage, 0));
  return inOrder([...roots, ...others]);
}

function parentOf(
  { agent, parentAgent }: AgentUsage,
  known: ReadonlySet<string>,
): string | undefined {
  if (agent === "" || parentAgent === agent) return undefined;
  if (known.has(parentAgent)) return parentAgent;
  return known.has("") ? "" : undefined;
}

/** Each list begins with the agent whose children the rest is. */
function inOrder(lists: readonly (readonly TreeAgent[])[]): readonly TreeAgent[] {
  return lists
    .filter((list) => list.length > 0)
    .toSorted(([one], [other]) => ((one?.total ?? 0n) < (other?.total ?? 0n) ? 1 : -1))
    .flat();
}
