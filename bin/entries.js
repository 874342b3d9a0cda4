// What is bundled: the program, and the files that run on threads of their own.

export const ENTRIES = ["src/main.ts", "src/inference/metering/tokens/count-worker.ts"];
