// Latency and uptime of a model at its provider over the last 24 hours, as the API shows them.

import { z } from "zod";
import type { Model } from "./catalog.ts";

/** A figure is undefined if there were too few calls to state it. */
export interface MeasuredFigures {
  /** The share of attempts that the provider completed, from 0 to 1. */
  readonly uptime: number | undefined;
  readonly latencyMs: number | undefined;
  readonly firstTokenMs: number | undefined;
}

/** Undefined for a model without calls. */
export type MeasuredModels = (model: Pick<Model, "provider" | "id">) => MeasuredFigures | undefined;

export const Measured = z
  .object({
    uptime: z
      .number()
      .nullable()
      .meta({ description: "The fraction of attempts that the provider completed, from 0 to 1." }),
    latency_ms: z
      .int()
      .nullable()
      .meta({ description: "Median time to the end of the reply, in milliseconds." }),
    first_token_ms: z
      .int()
      .nullable()
      .meta({ description: "Median time to the first token of a stream, in milliseconds." }),
  })
  .nullable()
  .meta({
    id: "MeasuredFigures",
    description:
      "What this gateway measured over the last 24 hours, in all its processes and on its own provider account; null with fewer than five calls. Medians are estimated from a histogram with doubling buckets.",
    example: { uptime: 0.998, latency_ms: 1_840, first_token_ms: 420 },
  });

export function toMeasured(figures: MeasuredFigures | undefined): z.infer<typeof Measured> {
  if (figures === undefined) return null;
  const { uptime, latencyMs, firstTokenMs } = figures;
  return {
    uptime: uptime === undefined ? null : Math.round(uptime * 10_000) / 10_000,
    latency_ms: latencyMs ?? null,
    first_token_ms: firstTokenMs ?? null,
  };
}
