// What a process of tests does after its last test (preload.ts).

const actions: (() => Promise<void>)[] = [];

export function atProcessEnd(action: () => Promise<void>): void {
  actions.push(action);
}

export async function endProcess(): Promise<void> {
  for (const action of actions.splice(0)) await action();
}
