# Posts Squall's notifications to Teams and PagerDuty (docs/notifications.md). Needs
# Python 3.9, and in the environment WEBHOOK_SECRET, and TEAMS_URL or PAGERDUTY_KEY.
import base64, hmac, json, os, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))

def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()

class Relay(BaseHTTPRequestHandler):
    def do_POST(self):
        h, body = self.headers, self.rfile.read(int(self.headers["content-length"]))
        mac = hmac.digest(KEY, f"{h['webhook-id']}.{h['webhook-timestamp']}.".encode() + body, "sha256")
        if not hmac.compare_digest("v1," + base64.b64encode(mac).decode(), h["webhook-signature"] or ""):
            return self.send_error(401)
        event = json.loads(body)
        data, text = event["data"], f"{event['subject']}: {event['data']['message']}"
        if url := os.environ.get("TEAMS_URL"):
            card = {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "TextBlock", "wrap": True, "text": text}]}
            post(url, {"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}]})
        action = {"Stuck": "trigger", "Resumed": "resolve", "Finished": "resolve"}.get(data["reason"])
        if (key := os.environ.get("PAGERDUTY_KEY")) and action:
            post(os.environ.get("PAGERDUTY_URL", "https://events.pagerduty.com/v2/enqueue"), {
                "routing_key": key, "event_action": action, "dedup_key": event["subject"],
                "payload": {"summary": text, "source": event["source"], "severity": "error"}})
        self.send_response(204)
        self.end_headers()

HTTPServer(("", 8080), Relay).serve_forever()
