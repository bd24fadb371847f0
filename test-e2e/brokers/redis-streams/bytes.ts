import { fromStreamEntry, streamMessage } from '@onceward/redis-streams'
import { type MessageMaker, textOf } from '../../fuzz/bytes/message-maker.ts'

/** Entries as ioredis reads them with `xreadgroupBuffer`. */
export const streamsBytes: MessageMaker = {
  toDelivery: (name, body, headers) => {
    const fields = headers.flatMap(([header, value]) => [
      header,
      value instanceof Uint8Array ? value : textOf(value),
    ])
    return fromStreamEntry(['1700000000000-0', [...fields, 'payload', body]], name)
  },
  messageOf: streamMessage,
}
