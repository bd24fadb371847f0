export {
  githubSignature,
  type Secrets,
  SIGNATURE_DEFAULTS,
  type SignatureOptions,
  standardWebhook,
  stripeSignature,
  type WebhookVerdict,
  type WebhookVerifier,
} from './signatures.ts'
export {
  createWebhookGuard,
  type WebhookGuardOptions,
  type WebhookOptions,
} from './webhook-guard.ts'
