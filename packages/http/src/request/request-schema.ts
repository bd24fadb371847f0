import { afterAnswer } from '@onceward/core/edge'
import type { Seen } from '../handler.ts'
import type { AnyHttpOptions } from '../options.ts'
import type { DecodedRequest } from './content.ts'

/** The user's schema sees the decoded body. What is compared is from before it. */
export function ofRequest(schema: AnyHttpOptions['schema']): NonNullable<AnyHttpOptions['schema']> {
  const toSeen = ({ content }: DecodedRequest, payload: unknown): Seen => ({ content, payload })
  return {
    '~standard': {
      version: 1,
      vendor: 'onceward',
      validate: (decoded) => {
        const request = decoded as DecodedRequest
        if (schema === undefined) return { value: toSeen(request, request.value) }
        return afterAnswer(schema['~standard'].validate(request.value), (result) =>
          'value' in Object(result) && !result.issues
            ? { value: toSeen(request, (result as { readonly value: unknown }).value) }
            : (result as { readonly issues: readonly { readonly message: string }[] }),
        )
      },
    },
  }
}

/** What is fingerprinted of a request. */
export function compared(
  { content, payload }: Seen,
  fingerprint: AnyHttpOptions['fingerprint'],
): unknown {
  if (typeof fingerprint !== 'function') return content
  const { method, route } = content as DecodedRequest['content']
  return afterAnswer(fingerprint(payload), (of) => ({ method, route, of }))
}
