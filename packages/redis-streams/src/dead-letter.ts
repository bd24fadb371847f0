import type { Delivery } from '@onceward/core'
import type { DeadLetterPlace } from '@onceward/core/adapter'
import {
  type DeadLetter,
  deadLetterHeaders,
  isDeadLetterHeader,
  type Publish,
} from '@onceward/core/ports'
import type { Field, StreamApi, StreamEntry } from './client.ts'
import { fieldsWithBody, streamMessage } from './delivery.ts'
import type { Settings } from './options.ts'

/** Entries in hand that were acked in the step that added their dead letter. */
export type Moved = WeakSet<object>

export function placeOf(
  api: Pick<StreamApi, 'add'>,
  settings: Settings,
  moved: Moved | undefined,
): DeadLetterPlace {
  const { deadLetter } = settings
  if (deadLetter === undefined) return { kind: 'record' }
  const { bodyField } = settings
  return {
    kind: 'publish',
    publish: createPublisher(api, { stream: deadLetter.stream, bodyField, moved }),
  }
}

interface Target {
  readonly stream: string
  readonly bodyField: string
  /**
   * Undefined with an inbox: between the letter and the ack the inbox records that it was published. An entry that is
   * acked before does not come back, and without it nobody records that after a crash.
   */
  readonly moved: Moved | undefined
}

/**
 * Adds dead letters to a stream. Without an inbox that of an entry in hand is added and its entry acked in one step.
 * Resolves once the server has done it.
 */
export function createPublisher(api: Pick<StreamApi, 'add'>, target: Target): Publish {
  const { stream, bodyField, moved } = target
  return async (letter) => {
    const original = moved && wholeOf(letter)
    await api.add(stream, deadLetterMessage(letter, bodyField), original)
    if (original !== undefined) moved?.add(original)
  }
}

/** The entry that is over with this dead letter. One item of a delivery that was split says nothing about the others. */
function wholeOf({ delivery: { raw, source } }: DeadLetter): StreamEntry | undefined {
  const entry = typeof raw === 'object' && raw !== null ? (raw as StreamEntry) : undefined
  return entry?.id === source.position ? entry : undefined
}

/** The original fields in their order, and then those that give the reason. */
export function deadLetterMessage(letter: DeadLetter, bodyField: string): readonly Field[] {
  const reasons = Object.entries(deadLetterHeaders(letter)).map(
    ([name, value]): Field => [Buffer.from(name), Buffer.from(value)],
  )
  return [...originalFields(letter.delivery, bodyField), ...reasons]
}

/** Without the fields of an earlier dead letter, which would contradict the new ones. */
export function originalFields(delivery: Delivery, bodyField: string): readonly Field[] {
  const { body, headers, source } = delivery
  const entry = streamMessage(delivery)
  if (entry === undefined) {
    const texts = Object.entries(headers).filter(([name]) => !isDeadLetterHeader(name))
    const fields = texts.map(
      ([name, value = '']) => [Buffer.from(name), Buffer.from(value)] as const,
    )
    return [...fields, [Buffer.from(bodyField), body]]
  }
  const isWhole = entry.id === source.position
  const fields = isWhole ? entry.fields : fieldsWithBody(entry, body, { bodyField })
  return fields.filter(([name]) => !isDeadLetterHeader(Buffer.from(name).toString()))
}
