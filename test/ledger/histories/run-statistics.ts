/** Counts of what a run covered: a run without rejections or sweeps proves little. */
export interface RunStatistics {
  histories: number;
  holds: number;
  /** Holds decided from cached rows. */
  heldSync: number;
  raises: number;
  settles: number;
  rejections: number;
  budgets: number;
  overBudget: number;
  lateSettles: number;
  sweeps: number;
  crashes: number;
  lostReplies: number;
  /** Deposits into an account with a debt. */
  debts: number;
}

export const emptyStatistics = (): RunStatistics => ({
  histories: 0,
  holds: 0,
  heldSync: 0,
  raises: 0,
  settles: 0,
  rejections: 0,
  budgets: 0,
  overBudget: 0,
  lateSettles: 0,
  sweeps: 0,
  crashes: 0,
  lostReplies: 0,
  debts: 0,
});
