import { headers as createHeaders } from '@nats-io/transport-node'
import { fromNatsMessage, natsMessage } from '@onceward/nats'
import { type MessageMaker, textOf } from '../../fuzz/bytes/message-maker.ts'

const info = { consumer: 'billing', deliveryCount: 1, streamSequence: 7, timestampNanos: 1.7e18 }

/** What the client refuses in a header. */
const LINE = /[\r\n]+/g

export const natsBytes: MessageMaker = {
  toDelivery: (name, body, headers) => {
    const made = createHeaders()
    for (const [header, value] of headers) {
      const text = (
        value instanceof Uint8Array ? Buffer.from(value).toString() : textOf(value)
      ).replaceAll(LINE, ' ')
      made.append(header, text)
    }
    return fromNatsMessage({
      ...{ subject: `${name}.placed`, headers: made, data: body },
      info: { ...info, stream: name },
    })
  },
  messageOf: natsMessage,
}
