/** What a run of histories was made of: a run that never refused or swept has shown little. */
export interface RunStatistics {
  histories: number;
  holds: number;
  /** Where nothing need be read for a hold. */
  heldSync: number;
  settles: number;
  refusals: number;
  budgets: number;
  overBudget: number;
  lateSettles: number;
  sweeps: number;
  crashes: number;
  lostReplies: number;
}

export const emptyStatistics = (): RunStatistics => ({
  histories: 0,
  holds: 0,
  heldSync: 0,
  settles: 0,
  refusals: 0,
  budgets: 0,
  overBudget: 0,
  lateSettles: 0,
  sweeps: 0,
  crashes: 0,
  lostReplies: 0,
});
