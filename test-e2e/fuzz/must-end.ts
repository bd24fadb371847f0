/** Clients and servers that were told to end have ended by then. */
const MUST_END_MS = 60_000

/**
 * Call it when everything is closed. A process that still lives afterwards says what keeps it alive, and fails: it would
 * run for ever, and nobody would know why.
 */
export function mustEnd(afterMs: number = MUST_END_MS): void {
  const timer = setTimeout(() => {
    const kept = process.getActiveResourcesInfo().join(', ')
    console.error(
      `everything is closed, but the process does not end. It is kept alive by: ${kept}`,
    )
    process.exit(1)
  }, afterMs)
  timer.unref()
}
