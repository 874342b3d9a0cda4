// What `doctor` says about models: the operator's file and the age of the prices.

import type { Config } from "../config.ts";
import { priceAge } from "../models/catalog.ts";
import { createCatalog, modelsFileAt } from "../models/live-catalog.ts";
import type { Finding } from "./doctor.ts";

const OLD_DAYS = 120;

export function checkModels(config: Config, now: number): readonly Finding[] {
  const { modelsFile } = config;
  if (modelsFile !== undefined && modelsFileAt(modelsFile).stamp() === undefined)
    return [
      {
        verdict: "fail",
        about: "models",
        says: `POSTERN_MODELS_FILE names ${modelsFile}, which is not there`,
        mend: "Make the file or unset the setting.",
      },
    ];
  try {
    const catalog = createCatalog({
      now,
      ...(modelsFile === undefined ? {} : { file: modelsFileAt(modelsFile) }),
    }).current();
    const age = priceAge(catalog, now);
    const says = `${catalog.models.length} models with prices, checked from ${age.oldest} to ${age.newest}`;
    if (age.days <= OLD_DAYS) return [{ verdict: "ok", about: "prices", says }];
    return [
      {
        verdict: "warn",
        about: "prices",
        says: `${says}; the oldest are ${age.days} days old`,
        mend: "Update Postern, or set what has changed in POSTERN_MODELS_FILE.",
      },
    ];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [
      {
        verdict: "fail",
        about: "models",
        says: `${modelsFile ?? "the catalog"} cannot be read`,
        mend: message.replaceAll("\n", " "),
      },
    ];
  }
}
