/** Processor time of this thread, ms: waiting for a busy machine is no work. */
function workedMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** What is the answer, and how long this thread worked at most before the event loop had its next turn, ms. */
export async function longestTurn<Answer>(
  work: () => Promise<Answer>,
): Promise<{ readonly answer: Answer; readonly turnMs: number }> {
  let [isOver, turnMs, lastMs] = [false, 0, workedMs()]
  const next = (): void => {
    const nowMs = workedMs()
    turnMs = Math.max(turnMs, nowMs - lastMs)
    lastMs = nowMs
    if (!isOver) setImmediate(next)
  }
  setImmediate(next)
  try {
    const answer = await work()
    next()
    return { answer, turnMs }
  } finally {
    isOver = true
  }
}

const utf8 = new TextDecoder('utf-8')

/** What it costs to read the body as JSON, without onceward, ms. */
export function bareParseMs(body: Uint8Array): number {
  const beganMs = workedMs()
  try {
    JSON.parse(utf8.decode(body))
  } catch {
    // It took its time too.
  }
  return workedMs() - beganMs
}
