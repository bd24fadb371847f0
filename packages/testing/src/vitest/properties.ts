import fc from 'fast-check'

/**
 * Properties draw from a seed that turns with the commit: what is green here is green in the CI, and a red test is due
 * to a change. ONCEWARD_E2E_SEED sets another one; with `clock` each property takes its own.
 */
const seed = process.env['ONCEWARD_E2E_SEED'] ?? process.env['ONCEWARD_COMMIT_SEED']
if (seed !== 'clock') fc.configureGlobal({ seed: Number(seed ?? 1) })
