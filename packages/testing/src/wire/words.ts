/** Whether a chunk that a client writes contains a word of its protocol. */
export type WordMatcher = (chunk: Buffer) => boolean

/** A call of the SQS API. */
export function sqsAction(name: string): WordMatcher {
  const target = `AmazonSQS.${name}`
  return (chunk) => chunk.includes(target)
}

/** A request of kafkajs or @platformatic/kafka is one chunk: four bytes of length, then the key of the API. */
export const kafkaRequest =
  (apiKey: number): WordMatcher =>
  (chunk) =>
    chunk.length > 6 && chunk.readInt16BE(4) === apiKey

const METHOD_FRAME = 1
const FRAME_HEAD = 7

/** Several frames may be in one chunk, and a method stands at the beginning of its frame. */
export const amqpMethod =
  (classId: number, methodId: number): WordMatcher =>
  (chunk) => {
    for (
      let at = 0;
      at + FRAME_HEAD + 4 <= chunk.length;
      at += FRAME_HEAD + chunk.readUInt32BE(at + 3) + 1
    ) {
      const isOne =
        chunk.readUInt16BE(at + 7) === classId && chunk.readUInt16BE(at + 9) === methodId
      if (chunk[at] === METHOD_FRAME && isOne) return true
    }
    return false
  }
