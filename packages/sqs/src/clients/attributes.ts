import type { MessageAttributeValue } from '@aws-sdk/client-sqs'

/** SQS: attributes of one message. */
export const MOST_ATTRIBUTES = 10

/** What SQS refuses in a body or an attribute. */
const NOT_ALLOWED = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu

/** Whether SQS takes the text as it is. */
export const isAllowed = (text: string): boolean => text.search(NOT_ALLOWED) < 0

/** The text with a replacement character in the place of each one that SQS refuses. */
export const allowed = (text: string): string => text.replaceAll(NOT_ALLOWED, '\u{FFFD}')

export const textAttribute = (StringValue: string): MessageAttributeValue => ({
  ...{ DataType: 'String', StringValue },
})
