/** What the command line answers to its caller. Documented in docs/cli.md. */
export const EXIT = {
  /** Done, or nothing to report. */
  ok: 0,
  /** The answer is no: findings, tables that are not current, no such event, something left unchanged. */
  no: 1,
  /** The command line is wrong. Nothing was done. */
  usage: 2,
  /** The work could not be done: no connection, no rights, tables of another version. */
  failed: 3,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]
