import type { ProveOptions } from './options.ts'
import { Play } from './play.ts'
import { type ProveResult, toResult } from './result.ts'
import { openStage } from './stage.ts'

/**
 * Runs the user's consumer in worker processes, sends it events and copies, kills workers at points of their work, and counts
 * the effects of each event.
 *
 * @throws {@link ProofError} if the proof cannot be run.
 */
export async function prove(options: ProveOptions): Promise<ProveResult> {
  const startedAt = performance.now()
  const undo: (() => Promise<void>)[] = []
  try {
    const stage = await openStage(options, undo)
    const play = new Play({ ...options, ...stage })
    await play.run()
    return await toResult(options, stage, play, performance.now() - startedAt)
  } finally {
    for (const step of undo.toReversed()) await step().catch(() => undefined)
  }
}
