"""What MQTT clients cost a broker: ours beside mosquitto."""
