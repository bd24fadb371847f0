import { InvalidPayloadError } from '../model/errors.ts'
import type { Resolver } from '../options/options.ts'
import { compose } from './event-key.ts'
import { type Fields, fieldsOf, isText } from './json-fields.ts'
import { ownResolver } from './resolvers.ts'

/**
 * The key of an S3 event: bucket, object key and `sequencer`, or for events without a sequencer the kind of the event, the
 * version of the object and the time. The object key is decoded (`+` and `%XX`).
 *
 * Takes one record, so a notification needs `split: ({ payload }) => payload.Records`; one with a single record is read
 * without it. Also takes the detail of an event that came through EventBridge.
 *
 * @throws {@link InvalidPayloadError} in the guard, for a notification of several records.
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 *
 * @example
 * ```ts
 * import { s3Key, s3TestEvent } from '@onceward/core'
 *
 * const options = { consumer: 'thumbnails', eventKey: s3Key(), skip: s3TestEvent }
 * ```
 */
export function s3Key(): Resolver<unknown, string> {
  return ownResolver((_delivery, decoded) => {
    const record = fieldsOf(recordOf(decoded))
    const isNotification = typeof record['s3'] === 'object'
    const { bucket, object } = fieldsOf(isNotification ? record['s3'] : record)
    const { name } = fieldsOf(bucket)
    const { key, sequencer, versionId, 'version-id': version } = fieldsOf(object)
    if (!isText(name) || !isText(key)) return undefined
    const place = [name, isNotification ? decodedKey(key) : key]
    if (isText(sequencer)) return compose('s3', ...place, sequencer)
    const { eventName, eventTime } = record
    if (!isText(eventName) || !isText(eventTime)) return undefined
    return compose('s3', ...place, eventName, String(versionId ?? version ?? ''), eventTime)
  })
}

/**
 * What happened to the object. A bucket with two configurations sends one change twice, with another configuration id.
 */
export function writtenInS3(fields: Fields): unknown {
  const { Records } = fields
  const record = Array.isArray(Records) && Records.length === 1 ? fieldsOf(Records[0]) : fields
  const { bucket, object } = fieldsOf(record['s3'])
  if (!isText(fieldsOf(bucket)['name']) || !isText(fieldsOf(object)['key'])) return undefined
  return { eventName: record['eventName'], object }
}

function recordOf(decoded: unknown): unknown {
  const { Records } = fieldsOf(decoded)
  if (!Array.isArray(Records)) return decoded
  if (Records.length === 1) return Records[0]
  throw new InvalidPayloadError(
    `The S3 notification holds ${Records.length} records, and each is an event of its own. Set \`split: ({ payload }) => payload.Records\`.`,
  )
}

/** As forms encode text. What is not encoded that way stays as it is. */
function decodedKey(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll('+', ' '))
  } catch {
    return key
  }
}
