import type { Json } from '@onceward/core'
import type { DoneEvent, EventId, Fingerprint, IdentifiedEvent } from '@onceward/core/ports'
import type { QueryAnswer } from '../driver/driver.ts'
import { answers, type ConsumerContext, idArray } from '../driver/rows.ts'
import { inline } from '../driver/sql-literal.ts'
import type { Statements } from '../statements/index.ts'

/** The statement that reads which of the events are done. */
export function doneText(
  { readDone }: Pick<Statements, 'readDone'>,
  events: readonly IdentifiedEvent[],
): string {
  return inline(readDone, [idArray(events)])
}

type DoneRow = readonly [
  id: EventId,
  fingerprint: string,
  result: readonly [Json] | null,
  ageMs: number,
]

/** The answer to {@link doneText}, in the order of the events. Undefined for an event that is not done. */
export function doneOf(
  events: readonly IdentifiedEvent[],
  answer: Pick<QueryAnswer, 'rows'>,
): readonly (DoneEvent | undefined)[] {
  const rows = new Map(answers<DoneRow>(answer).map((row) => [row[0], row]))
  return events.map(({ id }) => {
    const row = rows.get(id)
    if (row === undefined) return undefined
    const [, fingerprint, result, ageMs] = row
    const done = { kind: 'done', fingerprint: BigInt(fingerprint) as Fingerprint, ageMs } as const
    return result === null ? done : { ...done, result: result[0] }
  })
}

/**
 * Reads which of the events are done, without a transaction for each of them. If the read fails, nothing is known: the
 * claims of the events then report what is wrong.
 */
export async function readDone(
  { driver, statements }: ConsumerContext,
  events: readonly IdentifiedEvent[],
): Promise<readonly (DoneEvent | undefined)[]> {
  const answer = await driver.query(doneText(statements, events)).catch(() => undefined)
  return answer === undefined ? events.map(() => undefined) : doneOf(events, answer)
}
