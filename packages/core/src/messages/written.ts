import { writtenInEventBridge, writtenInSns } from './aws-envelopes.ts'
import { writtenInCloudEvent } from './cloud-event.ts'
import { writtenInMassTransit } from './envelopes.ts'
import { type Fields, fieldsOf } from './json-fields.ts'
import { writtenInS3 } from './s3-key.ts'

/** Envelopes that are known by their fields. */
export type EnvelopeFormat = 'sns' | 'eventBridge' | 'massTransit' | 'cloudEvent' | 's3'

/** What their producers wrote. Undefined: it is no such envelope. */
const FORMATS: Readonly<Record<EnvelopeFormat, (fields: Fields) => unknown>> = {
  sns: (fields) => writtenInSns(fields, (inner) => writtenPart(inner)?.part),
  eventBridge: writtenInEventBridge,
  massTransit: writtenInMassTransit,
  cloudEvent: writtenInCloudEvent,
  s3: writtenInS3,
}

/**
 * The part of an envelope that its producer wrote, which is the same in all its copies. What hops stamp on it is not: times,
 * signatures, traces, addresses. Undefined for any other value.
 */
export function writtenPart(
  decoded: unknown,
): { readonly format: EnvelopeFormat; readonly part: unknown } | undefined {
  if (typeof decoded !== 'object' || decoded === null) return undefined
  // Each envelope has one of these fields at least, and most payloads have none.
  const isMarked =
    'TopicArn' in decoded ||
    'detail-type' in decoded ||
    'messageType' in decoded ||
    'specversion' in decoded ||
    's3' in decoded ||
    'Records' in decoded
  if (!isMarked) return undefined
  const fields = fieldsOf(decoded)
  for (const [format, written] of Object.entries(FORMATS)) {
    const part = written(fields)
    if (part !== undefined) return { format: format as EnvelopeFormat, part }
  }
  return undefined
}
