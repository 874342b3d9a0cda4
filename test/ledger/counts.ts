/** What a run of histories was made of: a run that never refused or swept has shown little. */
export interface Counts {
  histories: number;
  holds: number;
  /** Where nothing need be read for a hold. */
  heldAtOnce: number;
  settles: number;
  refusals: number;
  budgets: number;
  overBudget: number;
  lateSettles: number;
  sweeps: number;
  crashes: number;
  repeats: number;
}

export const noCounts = (): Counts => ({
  histories: 0,
  holds: 0,
  heldAtOnce: 0,
  settles: 0,
  refusals: 0,
  budgets: 0,
  overBudget: 0,
  lateSettles: 0,
  sweeps: 0,
  crashes: 0,
  repeats: 0,
});
